/* jit.c: libtcc in memory, with code pages that are never writable and executable at once. */
#include "jit.h"

#include <errno.h>
#include <libtcc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "c_locale.h"
#include "error.h"
#include "host_symbols.h"

struct jit {
  TCCState *state; /* until jit_seal */
  void *code;
  size_t bytes;
};

/* libtcc keeps its state in globals. A child may be forked at any time: it gets them at rest. */
static pthread_mutex_t tcc_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;

static void before_fork(void) {
  pthread_mutex_lock(&tcc_lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&tcc_lock);
}

static void set_fork_handlers(void) {
  pthread_atfork(before_fork, after_fork, after_fork);
}

/* The first message of a compilation; libtcc stops there. */
typedef struct message {
  char text[2048];
} message;

static void keep_message(void *to, const char *text) {
  message *first = to; /* no libtcc call is allowed in here: it would wait for itself */
  if (!first->text[0]) snprintf(first->text, sizeof first->text, "%s", text);
}

static TCCState *new_state(message *log) {
  TCCState *state = tcc_new();
  if (!state) return NULL;
  tcc_set_error_func(state, log, keep_message);
  tcc_set_options(state, "-nostdlib -nostdinc -Wall -Werror");
  tcc_set_output_type(state, TCC_OUTPUT_MEMORY);
  /* Copies of structs become calls of these. */
  tcc_add_symbol(state, "memset", (const void *)memset);
  tcc_add_symbol(state, "memmove", (const void *)memmove);
  tcc_add_symbol(state, "memcpy", (const void *)memcpy);
  return state;
}

static fa_status compile_error(const jit_unit *unit, const message *log) {
  char *mapped = unit ? render_map_log(unit->text, log->text, unit->file_name) : NULL;
  fa_status status = fail(FA_COMPILE, "libtcc: %s", mapped ? mapped : log->text);
  free(mapped);
  return status;
}

/* Compiles one unit under its own file name. */
static fa_status compile_unit(TCCState *state, const jit_unit *unit, message *log) {
  size_t bytes = strlen(unit->text->text) + strlen(unit->file_name) + 32;
  char *named = malloc(bytes);
  if (!named) return fail(FA_NO_MEMORY, "%s: out of memory", unit->file_name);
  snprintf(named, bytes, "#line 1 \"%s\"\n%s", unit->file_name, unit->text->text);
  int result = tcc_compile_string(state, named);
  free(named);
  return result ? compile_error(unit, log) : FA_OK;
}

static fa_status map_error(const char *what) {
  return fail(FA_UNSUPPORTED, "no memory for generated code: %s: %s", what, strerror(errno));
}

/* Places the code through a writable view of a memory file, then replaces the view by an executable
   one at the same address. */
static fa_status place(jit *code, const message *log) {
  int needed = tcc_relocate(code->state, NULL);
  if (needed <= 0) return compile_error(NULL, log);
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  code->bytes = ((size_t)needed + page - 1) / page * page;
  int file = memfd_create("fagen", MFD_CLOEXEC);
  if (file < 0) return map_error("memfd_create");
  fa_status status = FA_OK;
  void *view = MAP_FAILED;
  if (ftruncate(file, (off_t)code->bytes))
    status = map_error("ftruncate");
  else if ((view = mmap(NULL, code->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) ==
           MAP_FAILED)
    status = map_error("mmap");
  if (!status) {
    code->code = view;
    if (tcc_relocate(code->state, view))
      status = compile_error(NULL, log);
    else if (mmap(view, code->bytes, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, file, 0) ==
             MAP_FAILED)
      status = map_error("mmap of executable pages");
  }
  close(file);
  return status;
}

static fa_status compile_all(jit *code, const jit_unit *units, size_t count, message *log) {
  jmp_buf landing;
  if (setjmp(landing)) {
    host_exit_landing = NULL;
    return fail(FA_COMPILE, "libtcc gave up: %s", log->text);
  }
  host_exit_landing = &landing;
  code->state = new_state(log);
  fa_status status = code->state ? FA_OK : fail(FA_NO_MEMORY, "libtcc: out of memory");
  for (size_t i = 0; !status && i < count; ++i) status = compile_unit(code->state, &units[i], log);
  if (!status) status = place(code, log);
  host_exit_landing = NULL;
  return status;
}

fa_status jit_compile(jit **out, const jit_unit *units, size_t count) {
  *out = NULL;
  jit *code = calloc(1, sizeof *code);
  message *log = calloc(1, sizeof *log);
  fa_status status = code && log ? FA_OK : fail(FA_NO_MEMORY, "libtcc: out of memory");
  if (!status) {
    pthread_once(&fork_handlers, set_fork_handlers);
    pthread_mutex_lock(&tcc_lock);
    locale_t before = c_locale_enter();
    status = compile_all(code, units, count, log);
    c_locale_leave(before);
    if (status) {
      jit_seal(code);
      jit_free(code);
      code = NULL;
    }
  }
  free(log);
  if (status && code) free(code);
  if (!status) *out = code;
  return status;
}

void *jit_symbol(jit *code, const char *name) {
  return tcc_get_symbol(code->state, name);
}

void jit_seal(jit *code) {
  if (code->state) tcc_delete(code->state);
  code->state = NULL;
  pthread_mutex_unlock(&tcc_lock);
}

void jit_free(jit *code) {
  if (!code) return;
  if (code->code) munmap(code->code, code->bytes);
  free(code);
}
