/* overlap.c: whether strided tensors share memory. */
#include "overlap.h"

#include <stdlib.h>
#include <string.h>

typedef struct dimension {
  int64_t stride, extent_a, extent_b;
} dimension;

/* Largest stride first. */
static int by_stride(const void *a, const void *b) {
  int64_t x = ((const dimension *)a)->stride, y = ((const dimension *)b)->stride;
  return (x < y) - (x > y);
}

/* The dimensions with more than one index, largest stride first; -1 when both tensors have one and
   their strides differ. b may be a itself. */
static int list_dimensions(dimension *out, const footprint *a, const footprint *b) {
  int count = 0;
  for (int i = 0; i < OVERLAP_DIMS; ++i) {
    int many_a = a->extent[i] > 1, many_b = b->extent[i] > 1;
    if (many_a && many_b && a->stride[i] != b->stride[i]) return -1;
    if (!many_a && !many_b) continue;
    out[count].stride = many_a ? a->stride[i] : b->stride[i];
    out[count].extent_a = a->extent[i];
    out[count++].extent_b = b->extent[i];
  }
  qsort(out, (size_t)count, sizeof *out, by_stride);
  return count;
}

int overlap_self(const footprint *a) {
  dimension dims[OVERLAP_DIMS];
  int count = list_dimensions(dims, a, a);
  int64_t span = a->stride[OVERLAP_DIMS - 1]; /* bytes that the inner dimensions cover */
  for (int i = count - 1; i >= 0; --i) {
    if (dims[i].stride < span) return 1;
    span += dims[i].stride * (dims[i].extent_a - 1);
  }
  return 0;
}

/* Whether b's index minus a's can bring `distance` bytes between element starts below one element:
   distance + sum of delta * stride, with -extent_a < delta < extent_b. */
static int meet(const dimension *dims, int count, int64_t distance, int64_t element) {
  if (count == 0) return distance > -element && distance < element;
  int64_t reach = element - 1; /* what the inner dimensions can add at most, either way */
  for (int i = 1; i < count; ++i) {
    int64_t extent = dims[i].extent_a > dims[i].extent_b ? dims[i].extent_a : dims[i].extent_b;
    reach += dims[i].stride * (extent - 1);
  }
  int64_t stride = dims[0].stride;
  if (stride == 0) return meet(dims + 1, count - 1, distance, element);
  int64_t low = (-distance - reach) / stride - 1, high = (-distance + reach) / stride + 1;
  if (low < 1 - dims[0].extent_a) low = 1 - dims[0].extent_a;
  if (high > dims[0].extent_b - 1) high = dims[0].extent_b - 1;
  for (int64_t delta = low; delta <= high; ++delta)
    if (meet(dims + 1, count - 1, distance + delta * stride, element)) return 1;
  return 0;
}

/* In nested layouts each level has a handful of candidates; others could take for ever. */
static int nests(const dimension *dims, int count) {
  int64_t span = 0;
  for (int i = count - 1; i >= 0; --i) {
    if (dims[i].stride && dims[i].stride < span) return 0;
    int64_t extent = dims[i].extent_a > dims[i].extent_b ? dims[i].extent_a : dims[i].extent_b;
    span += dims[i].stride * (extent - 1);
  }
  return 1;
}

/* The same bytes with heads that follow each other as one wide row, so that views of a packed tensor
   agree in strides although their heads differ in width. */
static footprint with_dense_heads_merged(const footprint *a) {
  enum { HEAD = OVERLAP_DIMS - 2, COLUMN = OVERLAP_DIMS - 1 };
  footprint merged = *a;
  if (a->stride[HEAD] == a->stride[COLUMN] * a->extent[COLUMN]) {
    merged.extent[COLUMN] *= merged.extent[HEAD];
    merged.extent[HEAD] = 1;
  }
  return merged;
}

/* Whether the two share bytes, or it cannot be told. */
static int may_meet(const footprint *a, const footprint *b) {
  dimension dims[OVERLAP_DIMS];
  int64_t element = a->stride[OVERLAP_DIMS - 1];
  if (element != b->stride[OVERLAP_DIMS - 1]) return 1;
  int count = list_dimensions(dims, a, b);
  if (count < 0 || !nests(dims, count)) return 1;
  return meet(dims, count, (int64_t)(b->begin - a->begin), element);
}

int overlap_pair(const footprint *a, const footprint *b) {
  if (a->end <= b->begin || b->end <= a->begin) return 0;
  footprint rows_a = with_dense_heads_merged(a), rows_b = with_dense_heads_merged(b);
  return may_meet(a, b) && may_meet(&rows_a, &rows_b);
}
