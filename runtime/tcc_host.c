/* tcc_host.c: what libtcc calls in the place of libc's functions. */
#include "tcc_host.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Thread_local jmp_buf *tcc_host_landing;

/* ---- The way out ----------------------------------------------------------------------------- */

_Noreturn void fagen_exit(int code);
_Noreturn void fagen_exit(int code) {
  (void)code;
  if (tcc_host_landing) longjmp(*tcc_host_landing, TCC_HOST_GAVE_UP);
  abort(); /* unreachable: libtcc runs inside jit.c only */
}

/* Emitted code is a closed world: not even an absolute path in an #include opens a file. */
int fagen_open(const char *path, int flags, ...);
int fagen_open(const char *path, int flags, ...) {
  (void)path, (void)flags;
  errno = ENOENT;
  return -1;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

static const char *code_end;

/* jit.c maps the finished code executable itself; libtcc's request for RWX is noted and ignored. */
int fagen_mprotect(void *address, size_t bytes, int protection);
int fagen_mprotect(void *address, size_t bytes, int protection) {
  const char *end = (const char *)address + bytes;
  (void)protection;
  if (!code_end || end > code_end) code_end = end;
  return 0;
}

const char *tcc_host_take_code_end(void) {
  const char *taken = code_end;
  code_end = NULL;
  return taken;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

typedef struct block {
  struct block *before, *after;
  _Alignas(max_align_t) char bytes[];
} block;

static block all = {.before = &all, .after = &all}; /* a ring */

static block *block_of(void *memory) {
  return (block *)((char *)memory - offsetof(block, bytes));
}

static void *enlist(block *fresh) {
  if (!fresh && tcc_host_landing) longjmp(*tcc_host_landing, TCC_HOST_NO_MEMORY);
  if (!fresh) return NULL;
  fresh->before = &all;
  fresh->after = all.after;
  fresh->after->before = all.after = fresh;
  return fresh->bytes;
}

static void delist(block *old) {
  old->before->after = old->after;
  old->after->before = old->before;
}

void *fagen_malloc(size_t bytes);
void *fagen_malloc(size_t bytes) {
  return enlist(malloc(sizeof(block) + bytes));
}

void *fagen_calloc(size_t count, size_t bytes);
void *fagen_calloc(size_t count, size_t bytes) {
  if (bytes && count > (SIZE_MAX - sizeof(block)) / bytes) return enlist(NULL);
  return enlist(calloc(1, sizeof(block) + count * bytes));
}

void fagen_free(void *memory);
void fagen_free(void *memory) {
  if (!memory) return;
  delist(block_of(memory));
  free(block_of(memory));
}

/* A block that cannot grow stays enlisted. */
void *fagen_realloc(void *memory, size_t bytes);
void *fagen_realloc(void *memory, size_t bytes) {
  if (!memory) return fagen_malloc(bytes);
  block *old = block_of(memory);
  delist(old);
  block *fresh = realloc(old, sizeof(block) + bytes);
  if (!fresh) enlist(old);
  return enlist(fresh);
}

/* ---- Globals --------------------------------------------------------------------------------- */

/* The archive's variables, in a section of their own (cmake/static_archives.cmake), whose bounds the
   linker names. None of them begins as anything but 0. */
extern char __start_fagen_tcc_bss[], __stop_fagen_tcc_bss[];

void tcc_host_reset(void) {
  while (all.after != &all) fagen_free(all.after->bytes);
  memset(__start_fagen_tcc_bss, 0, (size_t)(__stop_fagen_tcc_bss - __start_fagen_tcc_bss));
}
