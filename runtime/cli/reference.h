/* reference.h: attention, forward and backward, in float64: the definition and nothing else.
 *
 * Plain loops over dense tensors batch x seqlen x heads x dim, LSE batch x heads_q x seqlen_q.
 * Shares no code with the templates or the cpu primitives. What fagen.h promises holds here: causal
 * and other masks speak of positions on the key axis, a row without keys has O = 0, no gradient and
 * LSE = -inf, or its sink where it has one, and a pair that is not kept contributes nothing,
 * whatever its values are. */
#ifndef FAGEN_CLI_REFERENCE_H
#define FAGEN_CLI_REFERENCE_H

#include "fagen.h"
#include "sizes.h"

typedef struct reference_problem {
  int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, dim_qk, dim_v;
  double softmax_scale;
  const double *q, *k, *v;
  const double *dout; /* backward */
  const double *dlse; /* backward, laid out as LSE; NULL = none */
  const double *lse;  /* backward: the LSE that P is made with; NULL = its own */

  /* Whether the pair is kept. NULL: it is. */
  int (*keep)(const void *with, const cli_pair *pair);
  /* The score made of the scaled product s, with its derivative by s; -inf is not visible. NULL: s.
   */
  double (*score)(const void *with, const cli_pair *pair, double s, double *derivative);
  /* A logit that joins the sum of the row of the pair, whose key is none. NULL: no such. */
  double (*sink)(const void *with, const cli_pair *row);
  const void *with;

  /* Backward, if not NULL: told of every visible pair the gradient ds into its score, and of every
     row with a sink the gradient into that. noise is what f32 must not be blamed for: roundings of
     the terms that ds is made of. The root of the sum of its squares allows pairs roundings of any
     sign, and all pairs of a row those of its D of one sign. */
  void (*scored)(void *to, const cli_pair *pair, double s, double ds, double noise);
  void (*sunk)(void *to, const cli_pair *row, double dsink, double noise);
  void *gradients_to;

  /* What the products P V, P^T dO, dS K and dS^T Q take of P and dS, to see what a kernel loses
     that hands them over in 16 bits. NULL: P and dS as they are. */
  double (*rounded)(double value);

  /* Told after each row, if not NULL, how much of the work is done: 0 to 1. */
  void (*progress)(void *to, double done);
  void *progress_to;
} reference_problem;

/* Writes o (batch x seqlen_q x heads_q x dim_v) and lse. FA_NO_MEMORY. */
fa_status reference_forward(const reference_problem *in, double *o, double *lse);

/* Writes dq, dk, dv, which have the shapes of q, k, v. FA_NO_MEMORY. */
fa_status reference_backward(const reference_problem *in, double *dq, double *dk, double *dv);

#endif
