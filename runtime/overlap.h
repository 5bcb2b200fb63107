/* overlap.h: whether strided tensors share memory. */
#ifndef FAGEN_RUNTIME_OVERLAP_H
#define FAGEN_RUNTIME_OVERLAP_H

#include <stdint.h>

enum { OVERLAP_DIMS = 4 };

/* Where a tensor's elements lie: begin + sum of i[n] * stride[n] bytes, 0 <= i[n] < extent[n], each
   element stride[3] bytes long. Strides are >= 0; no extent is 0. */
typedef struct footprint {
  uintptr_t begin, end; /* end: one past the last byte */
  int64_t extent[OVERLAP_DIMS], stride[OVERLAP_DIMS];
} footprint;

/* Whether some element of the tensor shares bytes with another of its own. Layouts whose dimensions
   do not nest count as overlapping. */
int overlap_self(const footprint *a);

/* Whether the two share bytes. Exact when the strides agree, as for views of one packed tensor, or
   when the ranges are apart; otherwise tensors whose ranges cross count as overlapping. */
int overlap_pair(const footprint *a, const footprint *b);

#endif
