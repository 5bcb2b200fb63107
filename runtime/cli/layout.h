/* layout.h: where the tensors of a trial lie in memory. */
#ifndef FAGEN_CLI_LAYOUT_H
#define FAGEN_CLI_LAYOUT_H

#include "buffer.h"
#include "trial.h"

/* A tensor in the buffer that bears the number of its first tensor. */
typedef struct placement {
  int buffer;
  view tensor;
} placement;

/* Extents, dtypes and dense strides of every tensor: batch x seqlen x heads x dim, and for LSE, its
   gradient and D batch x heads x seqlen. spec is canonical. */
void layout_shapes(view shapes[TRIAL_TENSORS], const fa_spec *spec, const cli_sizes *sizes);

/* Places every tensor; bytes[i] is the payload of buffer i, 0 where there is none. With
   `any_stride` the wide layout uses odd strides and addresses, else multiples of 8 elements. */
void layout_place(placement places[TRIAL_TENSORS], size_t bytes[TRIAL_TENSORS],
                  const view shapes[TRIAL_TENSORS], trial_layout layout, int any_stride);

#endif
