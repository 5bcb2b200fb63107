/* buffer.c: guarded device memory with a host image of what it should hold. */
#include "buffer.h"

#include "gen/error.h"
#include "storage.h"

#include <stdlib.h>
#include <string.h>

int64_t view_count(const int64_t extent[4]) {
  return extent[0] * extent[1] * extent[2] * extent[3];
}

int view_next(int64_t at[4], const int64_t extent[4]) {
  for (int axis = 3; axis >= 0; --axis) {
    if (++at[axis] < extent[axis]) return 1;
    at[axis] = 0;
  }
  return 0;
}

int64_t view_index(const view *shape, const int64_t at[4]) {
  int64_t index = 0;
  for (int axis = 0; axis < 4; ++axis) index += at[axis] * shape->stride[axis];
  return index;
}

int64_t view_span(const view *shape) {
  int64_t last = 0;
  if (view_count(shape->extent) == 0) return 0;
  for (int axis = 0; axis < 4; ++axis) last += (shape->extent[axis] - 1) * shape->stride[axis];
  return last + 1;
}

void view_dense(int64_t stride[4], const int64_t extent[4]) {
  stride[3] = 1;
  for (int axis = 2; axis >= 0; --axis) stride[axis] = stride[axis + 1] * extent[axis + 1];
}

fa_status buffer_create(buffer *out, fa_context *context, size_t payload_bytes, int fill) {
  void *device = NULL;
  *out = (buffer){.context = context, .bytes = payload_bytes + 2 * BUFFER_GUARD};
  out->image = malloc(out->bytes);
  out->found = malloc(out->bytes);
  if (!out->image || !out->found)
    return fail(FA_NO_MEMORY, "no host memory for twice %zu bytes", out->bytes);
  fa_status status = fa_memory_alloc(&device, context, out->bytes);
  if (status) return status;
  out->device = device;
  memset(out->image, fill, out->bytes);
  return buffer_upload(out);
}

void buffer_free(buffer *memory) {
  if (memory->device) fa_memory_free(memory->context, memory->device);
  free(memory->image);
  free(memory->found);
  *memory = (buffer){0};
}

void *buffer_payload(const buffer *memory, size_t offset) {
  return memory->device + BUFFER_GUARD + offset;
}

static size_t byte_of(const view *tensor, const int64_t at[4]) {
  size_t before = (size_t)view_index(tensor, at) * storage_bytes(tensor->dtype);
  return BUFFER_GUARD + tensor->offset + before;
}

void buffer_write(buffer *memory, const view *tensor, const int64_t at[4], double value) {
  storage_write(memory->image + byte_of(tensor, at), value, tensor->dtype);
}

fa_status buffer_upload(buffer *memory) {
  return fa_memory_copy(memory->context, memory->device, memory->image, memory->bytes, NULL);
}

fa_status buffer_download(buffer *memory) {
  return fa_memory_copy(memory->context, memory->found, memory->device, memory->bytes, NULL);
}

double buffer_accept(buffer *memory, const view *tensor, const int64_t at[4]) {
  size_t byte = byte_of(tensor, at);
  memcpy(memory->image + byte, memory->found + byte, storage_bytes(tensor->dtype));
  return storage_read(memory->found + byte, tensor->dtype);
}

int buffer_intact(const buffer *memory, int guards_only) {
  size_t end = memory->bytes - BUFFER_GUARD;
  if (!guards_only) return !memcmp(memory->image, memory->found, memory->bytes);
  return !memcmp(memory->image, memory->found, BUFFER_GUARD) &&
         !memcmp(memory->image + end, memory->found + end, BUFFER_GUARD);
}
