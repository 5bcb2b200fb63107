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
#include "tcc_host.h"

struct jit {
  TCCState *state; /* until jit_seal */
  char *code;
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

/* What a compilation holds while libtcc runs, which may be left at any call. */
typedef struct work {
  jit *code;
  char *text;         /* the unit under way */
  int file;           /* the memory file; -1: none */
  char message[2048]; /* the first; libtcc stops there */
} work;

static void keep_message(void *to, const char *text) {
  work *w = to; /* no libtcc call is allowed in here: it would wait for itself */
  if (!w->message[0]) snprintf(w->message, sizeof w->message, "%s", text);
}

/* Data begins on a page of its own, which stays writable where that of the code does not. Where
   libtcc has no assembler, data shares the code's pages and cannot be written. */
#if defined(__x86_64__) || defined(__i386__)
static const char page_of_data[] = "__asm__(\".data\\n.balign 4096\\n.text\");\n";
#else
static const char page_of_data[] = "";
#endif

static fa_status new_state(work *w) {
  TCCState *state = w->code->state = tcc_new();
  if (!state) return fail(FA_NO_MEMORY, "libtcc: out of memory");
  tcc_set_error_func(state, w, keep_message);
  tcc_set_options(state, "-nostdlib -nostdinc -Wall -Werror");
  tcc_set_output_type(state, TCC_OUTPUT_MEMORY);
  /* Copies of structs become calls of these. */
  tcc_add_symbol(state, "memset", (const void *)memset);
  tcc_add_symbol(state, "memmove", (const void *)memmove);
  tcc_add_symbol(state, "memcpy", (const void *)memcpy);
  if (*page_of_data) tcc_compile_string(state, page_of_data);
  return FA_OK;
}

static fa_status compile_error(const jit_unit *unit, const work *w) {
  char *mapped = unit ? render_map_log(unit->text, w->message, unit->file_name) : NULL;
  fa_status status = fail(FA_COMPILE, "libtcc: %s", mapped ? mapped : w->message);
  free(mapped);
  return status;
}

/* Compiles one unit under its own file name. */
static fa_status compile_unit(work *w, const jit_unit *unit) {
  size_t bytes = strlen(unit->text->text) + strlen(unit->file_name) + 32;
  w->text = malloc(bytes);
  if (!w->text) return fail(FA_NO_MEMORY, "%s: out of memory", unit->file_name);
  snprintf(w->text, bytes, "#line 1 \"%s\"\n%s", unit->file_name, unit->text->text);
  int result = tcc_compile_string(w->code->state, w->text);
  free(w->text);
  w->text = NULL;
  return result ? compile_error(unit, w) : FA_OK;
}

static fa_status map_error(const char *what) {
  return fail(FA_UNSUPPORTED, "no memory for generated code: %s: %s", what, strerror(errno));
}

static int replace_pages(char *at, size_t bytes, int protection, int flags, int file, off_t from) {
  return bytes && mmap(at, bytes, protection, flags | MAP_FIXED, file, from) == MAP_FAILED;
}

/* Replaces the view by an executable one of the code and a writable one of the data, at the same
   addresses. The file keeps none of what the data becomes. */
static fa_status protect(const jit *code, int file) {
  const char *end = tcc_host_take_code_end();
  size_t bytes = end ? (size_t)(end - code->code) : 0;
  if (bytes > code->bytes || !*page_of_data) bytes = code->bytes;
  if (replace_pages(code->code, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0))
    return map_error("mmap of executable pages");
  if (replace_pages(code->code + bytes, code->bytes - bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE,
                    file, (off_t)bytes))
    return map_error("mmap of data");
  return FA_OK;
}

/* Places the code through a writable view of a memory file. */
static fa_status place(work *w) {
  jit *code = w->code;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int needed = tcc_relocate(code->state, NULL);
  if (needed <= 0) return compile_error(NULL, w);
  code->bytes = ((size_t)needed + page - 1) / page * page;
  w->file = memfd_create("fagen", MFD_CLOEXEC);
  if (w->file < 0) return map_error("memfd_create");
  if (ftruncate(w->file, (off_t)code->bytes)) return map_error("ftruncate");
  void *view = mmap(NULL, code->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->file, 0);
  if (view == MAP_FAILED) return map_error("mmap");
  code->code = view;
  tcc_host_take_code_end();
  return tcc_relocate(code->state, view) ? compile_error(NULL, w) : protect(code, w->file);
}

static fa_status compile_all(work *w, const jit_unit *units, size_t count) {
  jmp_buf landing;
  int reason = setjmp(landing);
  if (reason) {
    tcc_host_landing = NULL;
    return reason == TCC_HOST_NO_MEMORY ? fail(FA_NO_MEMORY, "libtcc: out of memory")
                                        : fail(FA_COMPILE, "libtcc gave up: %s", w->message);
  }
  tcc_host_landing = &landing;
  fa_status status = new_state(w);
  for (size_t i = 0; !status && i < count; ++i) status = compile_unit(w, &units[i]);
  if (!status) status = place(w);
  tcc_host_landing = NULL;
  return status;
}

fa_status jit_compile(jit **out, const jit_unit *units, size_t count) {
  *out = NULL;
  jit *code = calloc(1, sizeof *code);
  work *w = calloc(1, sizeof *w);
  if (!code || !w) {
    free(code);
    free(w);
    return fail(FA_NO_MEMORY, "libtcc: out of memory");
  }
  *w = (work){.code = code, .file = -1};
  pthread_once(&fork_handlers, set_fork_handlers);
  pthread_mutex_lock(&tcc_lock);
  locale_t before = c_locale_enter();
  fa_status status = compile_all(w, units, count);
  c_locale_leave(before);
  if (w->file >= 0) close(w->file);
  free(w->text);
  free(w);
  if (status) {
    jit_seal(code);
    jit_free(code);
  } else {
    *out = code;
  }
  return status;
}

void *jit_symbol(jit *code, const char *name) {
  return tcc_get_symbol(code->state, name);
}

void jit_seal(jit *code) {
  code->state = NULL; /* not tcc_delete, which needs it whole */
  tcc_host_reset();
  pthread_mutex_unlock(&tcc_lock);
}

void jit_free(jit *code) {
  if (!code) return;
  if (code->code) munmap(code->code, code->bytes);
  free(code);
}
