/* render.c: one sandboxed Lua state a call; engine.lua does the rendering, this file the borders:
   what a state may use, how it reads files, and how its results become C. */
#include "render.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bundle.h"
#include "c_locale.h"
#include "error.h"
#include "spec.h"

/* A kernel takes about 1 MB, 1 million instructions and 10 ms; a template that needs a hundred times
   that is in an endless loop. The time is this thread's own, and the only clock in gen: it ends what
   spends its instructions on long ones. */
enum {
  MEMORY_LIMIT = 128 << 20,
  HOOK_INTERVAL = 1000,
  INSTRUCTION_LIMIT = 100000000,
  SECONDS_LIMIT = 2,
  MOST_FACTS = 1000
};

extern const char engine_source[], sandbox_source[];
extern const size_t engine_source_bytes, sandbox_source_bytes;
static const char engine_chunk[] = "@gen/engine.lua", sandbox_chunk[] = "@gen/sandbox.lua";

typedef struct job {
  const char *overlay;
  size_t memory_used;
  long instructions;
  time_t deadline;   /* in seconds of this thread's time */
  char *text, *path; /* of the file last read: freed by the next read and at the end */
  fa_status status;  /* a failure that is not the template's own */
  const fa_spec *spec;
  const char *variant;
  void *out;
} job;

/* ---- Limits --------------------------------------------------------------------------------- */

static void *allocate(void *user, void *old, size_t old_bytes, size_t bytes) {
  job *j = user;
  size_t before = old ? old_bytes : 0;
  if (bytes == 0) {
    free(old);
    j->memory_used -= before;
    return NULL;
  }
  if (bytes > before && j->memory_used + (bytes - before) > MEMORY_LIMIT) return NULL;
  void *fresh = realloc(old, bytes);
  if (fresh) j->memory_used += bytes - before;
  return fresh;
}

static job *job_of(lua_State *L) {
  return *(job **)lua_getextraspace(L);
}

static int is_own(const char *source) {
  return !strcmp(source, engine_chunk) || !strcmp(source, sandbox_chunk);
}

/* Pushes "file:line: " of the innermost template or module that runs, or of the one that called it;
   "" outside all. */
static void push_position(lua_State *L, int of_caller) {
  lua_Debug at;
  const char *skipped = of_caller ? NULL : "";
  for (int level = 0; lua_getstack(L, level, &at); ++level) {
    lua_getinfo(L, "Sl", &at);
    if (at.currentline < 1 || is_own(at.source)) continue;
    if (!skipped) skipped = at.source;
    if (!strcmp(at.source, skipped)) continue;
    lua_pushfstring(L, "%s:%d: ", at.short_src, at.currentline);
    return;
  }
  lua_pushliteral(L, "");
}

static time_t seconds_of_thread(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec;
}

/* Once raised, it is raised again at every instruction, so that nothing can swallow it. */
static void count_instructions(lua_State *L, lua_Debug *unused) {
  (void)unused;
  job *j = job_of(L);
  int out_of_time = seconds_of_thread() >= j->deadline;
  j->instructions += HOOK_INTERVAL;
  if (j->instructions < INSTRUCTION_LIMIT && !out_of_time) return;
  lua_sethook(L, count_instructions, LUA_MASKCOUNT, 1);
  j->instructions = INSTRUCTION_LIMIT;
  push_position(L, 0);
  if (out_of_time)
    lua_pushfstring(L, "stopped after %d seconds: an endless loop?", SECONDS_LIMIT);
  else
    lua_pushfstring(L, "stopped after %d million instructions: an endless loop?",
                    INSTRUCTION_LIMIT / 1000000);
  lua_concat(L, 2);
  lua_error(L);
}

/* ---- The state ------------------------------------------------------------------------------ */

static void forget_file(job *j) {
  free(j->text);
  free(j->path);
  j->text = j->path = NULL;
}

/* read(name) -> text, path or nil, message */
static int read_file(lua_State *L) {
  job *j = job_of(L);
  size_t bytes;
  forget_file(j);
  fa_status status = bundle_read(&j->text, &bytes, &j->path, j->overlay, luaL_checkstring(L, 1));
  if (status) {
    j->status = status;
    lua_pushnil(L);
    lua_pushstring(L, fa_error_message());
    return 2;
  }
  lua_pushlstring(L, j->text, bytes);
  lua_pushstring(L, j->path);
  return 2;
}

/* Pushes "file:line: " of the innermost code of that file; nil when none of it runs. */
static void push_position_in(lua_State *L, const char *file) {
  lua_Debug at;
  for (int level = 0; lua_getstack(L, level, &at); ++level) {
    lua_getinfo(L, "Sl", &at);
    int is_short = !strcmp(at.short_src, file), is_whole = !strcmp(at.source + 1, file);
    if (at.currentline < 1 || (!is_short && !is_whole)) continue;
    lua_pushfstring(L, "%s:%d: ", at.short_src, at.currentline);
    return;
  }
  lua_pushnil(L);
}

/* position(), position(true), position(function), position(file): see engine.lua */
static int position(lua_State *L) {
  lua_Debug at;
  if (lua_isstring(L, 1)) {
    push_position_in(L, lua_tostring(L, 1));
    return 1;
  }
  if (!lua_isfunction(L, 1)) {
    push_position(L, lua_toboolean(L, 1));
    return 1;
  }
  lua_settop(L, 1);
  lua_getinfo(L, ">S", &at);
  lua_pushfstring(L, "%s:%d: ", at.short_src, at.linedefined);
  return 1;
}

/* limit(message): see engine.lua */
static int raise_limit(lua_State *L) {
  job_of(L)->status = FA_UNSUPPORTED;
  return lua_error(L);
}

static void open_libraries(lua_State *L) {
  static const luaL_Reg libraries[] = {{"_G", luaopen_base},
                                       {LUA_TABLIBNAME, luaopen_table},
                                       {LUA_STRLIBNAME, luaopen_string},
                                       {LUA_MATHLIBNAME, luaopen_math}};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; ++i) {
    luaL_requiref(L, libraries[i].name, libraries[i].func, 1);
    lua_pop(L, 1);
  }
}

static void load_own(lua_State *L, const char *source, size_t bytes, const char *chunk) {
  if (luaL_loadbufferx(L, source, bytes, chunk, "t")) lua_error(L);
}

/* Leaves the engine's table on the stack. */
static void load_engine(lua_State *L) {
  load_own(L, engine_source, engine_source_bytes, engine_chunk);
  lua_pushcfunction(L, read_file);
  lua_pushcfunction(L, position);
  lua_pushcfunction(L, raise_limit);
  load_own(L, sandbox_source, sandbox_source_bytes, sandbox_chunk);
  lua_call(L, 4, 1);
}

static int begins_with(const char *text, const char *beginning) {
  return !strncmp(text, beginning, strlen(beginning));
}

/* Makes the message of an error inside the engine begin with the template's line. */
static int blame_template(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (message && !begins_with(message, engine_chunk + 1) &&
      !begins_with(message, sandbox_chunk + 1))
    return 1;
  push_position(L, 0);
  lua_pushstring(L, message ? message : "error without a message");
  lua_concat(L, 2);
  return 1;
}

static fa_status run_in(lua_State *L, job *j, lua_CFunction body) {
  *(job **)lua_getextraspace(L) = j;
  j->deadline = seconds_of_thread() + SECONDS_LIMIT;
  lua_sethook(L, count_instructions, LUA_MASKCOUNT, HOOK_INTERVAL);
  lua_pushcfunction(L, blame_template);
  lua_pushcfunction(L, body);
  int code = lua_pcall(L, 0, 0, 1);
  if (!code) return FA_OK;
  if (code == LUA_ERRMEM)
    return fail(FA_NO_MEMORY, "templates: more than %d MiB used", MEMORY_LIMIT >> 20);
  return fail(j->status ? j->status : FA_TEMPLATE, "%s", lua_tostring(L, -1));
}

/* Runs `body` in a fresh state; its errors become a status and a message. */
static fa_status run(job *j, lua_CFunction body) {
  lua_State *L = lua_newstate(allocate, j);
  if (!L) return fail(FA_NO_MEMORY, "templates: no memory for a Lua state");
  locale_t before = c_locale_enter();
  fa_status status = run_in(L, j, body);
  c_locale_leave(before);
  lua_close(L);
  forget_file(j);
  return status;
}

/* ---- Spec to Lua ---------------------------------------------------------------------------- */

static void set_integer(lua_State *L, const char *key, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

static void set_string(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static void set_boolean(lua_State *L, const char *key, int value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

static fa_status push_name(void *to, const char *name) {
  lua_State *L = to;
  lua_pushstring(L, name);
  lua_seti(L, -2, luaL_len(L, -2) + 1);
  return FA_OK;
}

static void push_spec(lua_State *L, const fa_spec *spec) {
  char words[FA_NAME_MAX] = "", name[FA_NAME_MAX] = "", version[32];
  fa_spec_print(words, sizeof words, spec);
  fa_spec_name(name, sizeof name, spec);
  snprintf(version, sizeof version, "%d.%d.%d", FA_VERSION_MAJOR, FA_VERSION_MINOR,
           FA_VERSION_PATCH);
  lua_newtable(L);
  set_string(L, "words", words);
  set_string(L, "name", name);
  set_string(L, "version", version);
  set_string(L, "pass", spec_pass_word(spec->pass));
  set_string(L, "target", spec_target_word(spec->target));
  set_string(L, "dtype", spec_dtype_word(spec->dtype));
  set_integer(L, "arch", spec->arch);
  set_integer(L, "dim_qk", spec->dim_qk);
  set_integer(L, "dim_v", spec->dim_v);
  set_integer(L, "group", spec->group);
  set_boolean(L, "deterministic", spec->deterministic);
  lua_newtable(L); /* causal is a variant like any other, and the first */
  if (spec->causal) push_name(L, "causal");
  spec_each_variant(spec->variants, push_name, L);
  lua_setfield(L, -2, "variants");
}

/* ---- Lua to result -------------------------------------------------------------------------- */

static void no_memory(lua_State *L) {
  job_of(L)->status = FA_NO_MEMORY;
  luaL_error(L, "templates: out of memory");
}

static char *copy_string(lua_State *L, int index) {
  char *copy = strdup(luaL_checkstring(L, index));
  if (!copy) no_memory(L);
  return copy;
}

static char *copy_field(lua_State *L, const char *key) {
  lua_getfield(L, -1, key);
  char *copy = copy_string(L, -1);
  lua_pop(L, 1);
  return copy;
}

static void *allocate_items(lua_State *L, size_t count, size_t bytes) {
  void *items = calloc(count ? count : 1, bytes);
  if (!items) no_memory(L);
  return items;
}

/* The { text =, origins = } in the field `key` of the table on top. */
static void take_text(lua_State *L, render_text *out, const char *key) {
  lua_getfield(L, -1, key);
  out->text = copy_field(L, "text");
  lua_getfield(L, -1, "origins");
  size_t lines = (size_t)luaL_len(L, -1);
  out->origins = allocate_items(L, lines, sizeof *out->origins);
  for (; out->lines < lines; ++out->lines) {
    lua_geti(L, -1, (lua_Integer)out->lines + 1);
    out->origins[out->lines] = copy_string(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

static void take_facts(lua_State *L, render_result *out) {
  lua_getfield(L, -1, "facts");
  lua_Integer count = luaL_len(L, -1);
  if (count < 0 || count > MOST_FACTS) luaL_error(L, "tiles: more than %d facts", MOST_FACTS);
  out->facts = allocate_items(L, (size_t)count, sizeof *out->facts);
  while (out->num_facts < (size_t)count) {
    render_fact *fact = &out->facts[out->num_facts++];
    lua_geti(L, -1, (lua_Integer)out->num_facts);
    fact->name = copy_field(L, "name");
    fact->value = copy_field(L, "value");
    fact->reason = copy_field(L, "reason");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* The mask's words; causal's are written here, so that a wrong causal.lua does not mislead an
   oracle. */
static char *copy_keep(lua_State *L, int causal) {
  lua_getfield(L, -1, "keep");
  const char *named = luaL_checkstring(L, -1);
  lua_pushfstring(L, "%s%s%s%s", named, causal && *named ? " " : "", causal ? "k q le" : "",
                  causal && *named ? " and" : "");
  char *copy = copy_string(L, -1);
  lua_pop(L, 2);
  return copy;
}

static int render_body(lua_State *L) {
  job *j = job_of(L);
  render_result *out = j->out;
  open_libraries(L);
  load_engine(L);
  lua_getfield(L, -1, "render");
  push_spec(L, j->spec);
  lua_call(L, 1, 1);
  take_text(L, &out->kernel, "kernel");
  take_text(L, &out->launch, "launch");
  take_facts(L, out);
  out->keep = copy_keep(L, j->spec->causal);
  out->score = copy_field(L, "score");
  out->sink = copy_field(L, "sink");
  out->params_text = copy_field(L, "params");
  j->status = params_parse(&out->params, out->params_text);
  return j->status ? luaL_error(L, "%s", fa_error_message()) : 0;
}

static int doc_body(lua_State *L) {
  job *j = job_of(L);
  open_libraries(L);
  load_engine(L);
  lua_getfield(L, -1, "variant_doc");
  lua_pushstring(L, j->variant);
  lua_call(L, 1, 1);
  *(char **)j->out = copy_string(L, -1);
  return 0;
}

/* ---- Public to the library ------------------------------------------------------------------ */

/* What cannot be rendered for want of a file, in words of the user's side. */
static fa_status check_variant_exists(void *overlay, const char *name) {
  char file[64];
  snprintf(file, sizeof file, "variants/%s.lua", name);
  if (bundle_has(overlay, file)) return FA_OK;
  bundle_names there;
  char list[512] = "";
  fa_status status = bundle_variants(&there, overlay);
  if (status) return status;
  for (size_t i = 0; i < there.count; ++i) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, " %s", there.names[i]);
  }
  bundle_names_free(&there);
  return fail(FA_INVALID,
              "spec: unknown word '%s': no value of an axis, and no variant (those are:%s)", name,
              list);
}

static fa_status check_files(const fa_spec *spec, const char *overlay) {
  char file[64];
  int cpu = spec->target == FA_TARGET_CPU;
  snprintf(file, sizeof file, "%s/%s%s", spec_target_word(spec->target), spec_pass_word(spec->pass),
           cpu ? ".c.lua" : ".cu.lua");
  if (!bundle_has(overlay, file))
    return fail(FA_UNSUPPORTED,
                "target %s: this version has no kernel for pass %s (no templates/%s)",
                spec_target_word(spec->target), spec_pass_word(spec->pass), file);
  return spec_each_variant(spec->variants, check_variant_exists, (void *)overlay);
}

fa_status render_spec(render_result *out, const fa_spec *spec, const char *overlay) {
  memset(out, 0, sizeof *out);
  if (spec->target == FA_TARGET_BEST)
    return fail(FA_INVALID, "target: none named; the emitted text depends on it");
  fa_status status = check_files(spec, overlay);
  if (!status) status = fa_spec_name(out->name, sizeof out->name, spec);
  job j = {.overlay = overlay, .spec = spec, .out = out};
  if (!status) status = run(&j, render_body);
  if (status) render_free(out);
  return status;
}

fa_status render_variant_doc(char **doc, const char *name, const char *overlay) {
  *doc = NULL;
  job j = {.overlay = overlay, .variant = name, .out = doc};
  return run(&j, doc_body);
}

static void free_text(render_text *text) {
  for (size_t i = 0; i < text->lines; ++i) free(text->origins[i]);
  free(text->origins);
  free(text->text);
}

void render_free(render_result *result) {
  free_text(&result->kernel);
  free_text(&result->launch);
  for (size_t i = 0; i < result->num_facts; ++i) {
    free(result->facts[i].name);
    free(result->facts[i].value);
    free(result->facts[i].reason);
  }
  free(result->facts);
  free(result->keep);
  free(result->score);
  free(result->sink);
  free(result->params_text);
  memset(result, 0, sizeof *result);
}

char *render_map_log(const render_text *text, const char *log, const char *file_name) {
  char *mapped = NULL;
  size_t bytes = 0, prefix = strlen(file_name);
  FILE *out = open_memstream(&mapped, &bytes);
  if (!out) return NULL;
  while (*log) {
    size_t length = strcspn(log, "\n"), line = 0;
    int digits = 0;
    if (!strncmp(log, file_name, prefix)) {
      sscanf(log + prefix, ":%zu:%n", &line, &digits);
      if (!digits) sscanf(log + prefix, "(%zu):%n", &line, &digits);
    }
    if (digits && line >= 1 && line <= text->lines) {
      size_t skip = prefix + (size_t)digits;
      fprintf(out, "%s:%.*s (%.*s)", text->origins[line - 1], (int)(length - skip), log + skip,
              (int)skip - 1, log);
    } else {
      fprintf(out, "%.*s", (int)length, log);
    }
    log += length;
    if (*log) fputc(*log++, out);
  }
  fclose(out);
  return mapped;
}
