/* memory.c: memory on the context's device. */
#include "context.h"
#include "error.h"

FA_API fa_status fa_memory_alloc(void **out, fa_context *context, size_t bytes) {
  if (!out) return fail(FA_INVALID, "out: NULL; a place for the address is required");
  *out = NULL;
  if (!context) return fail(FA_INVALID, "context: NULL");
  int entered;
  fa_status status = context->backend->enter(context, NULL, &entered);
  if (status) return status;
  status = context->backend->alloc(out, context, bytes ? bytes : 1);
  context->backend->leave(context, entered);
  return status;
}

FA_API void fa_memory_free(fa_context *context, void *memory) {
  int entered;
  if (!context || !memory || context->backend->enter(context, NULL, &entered)) return;
  context->backend->free(context, memory);
  context->backend->leave(context, entered);
}

FA_API fa_status fa_memory_copy(fa_context *context, void *to, const void *from, size_t bytes,
                                struct CUstream_st *stream) {
  if (!context) return fail(FA_INVALID, "context: NULL");
  if (bytes && (!to || !from))
    return fail(FA_INVALID, "%s: NULL, with bytes %zu", to ? "from" : "to", bytes);
  int entered;
  fa_status status = context->backend->enter(context, stream, &entered);
  if (status) return status;
  if (bytes) status = context->backend->copy(context, to, from, bytes, stream);
  context->backend->leave(context, entered);
  return status;
}
