/* memory.c: memory on the context's device. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "error.h"

enum { ALIGNMENT = 256 };

FA_API fa_status fa_memory_alloc(void **out, fa_context *context, size_t bytes) {
  if (!out) return fail(FA_INVALID, "out: NULL; a place for the address is required");
  *out = NULL;
  if (!context) return fail(FA_INVALID, "context: NULL");
  if (bytes > SIZE_MAX - ALIGNMENT)
    return fail(FA_NO_MEMORY, "bytes: %zu; no machine has that many", bytes);
  size_t rounded = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
  *out = aligned_alloc(ALIGNMENT, rounded);
  return *out ? FA_OK : fail(FA_NO_MEMORY, "bytes: %zu; the system has no such memory", bytes);
}

FA_API void fa_memory_free(fa_context *context, void *memory) {
  (void)context;
  free(memory);
}

FA_API fa_status fa_memory_copy(fa_context *context, void *to, const void *from, size_t bytes,
                                struct CUstream_st *stream) {
  if (!context) return fail(FA_INVALID, "context: NULL");
  if (stream) return fail(FA_INVALID, "stream: %p; must be NULL on cpu", (void *)stream);
  if (bytes && (!to || !from))
    return fail(FA_INVALID, "%s: NULL, with bytes %zu", to ? "from" : "to", bytes);
  if (bytes) memmove(to, from, bytes);
  return FA_OK;
}
