/* problem.h: one small attention problem for the tests of the public API, all its memory in one
   place, so that a test can say that a refused call touched nothing. */
#ifndef FAGEN_TESTS_API_PROBLEM_H
#define FAGEN_TESTS_API_PROBLEM_H

#include "support/expect.h"

enum {
  BATCH = 2,
  HEADS_Q = 4,
  HEADS_KV = 2,
  SEQLEN_Q = 5,
  SEQLEN_K = 7,
  DIM_QK = 16,
  DIM_V = 8,
  ROWS = BATCH * HEADS_Q * SEQLEN_Q,
  WORKSPACE_BYTES = 1 << 16
};

/* f32 tensors, batch x seqlen x heads x dim, so far apart that each, put in the place of another,
   meets that one only. */
typedef struct problem {
  _Alignas(4096) float q[ROWS * DIM_QK];
  _Alignas(4096) float k[BATCH * SEQLEN_K * HEADS_KV * DIM_QK];
  _Alignas(4096) float v[BATCH * SEQLEN_K * HEADS_KV * DIM_V];
  _Alignas(4096) float o[ROWS * DIM_V];
  _Alignas(4096) float lse[ROWS];
  _Alignas(4096) float dout[ROWS * DIM_V];
  _Alignas(4096) float dlse[ROWS];
  _Alignas(4096) float dq[ROWS * DIM_QK];
  _Alignas(4096) float dk[BATCH * SEQLEN_K * HEADS_KV * DIM_QK];
  _Alignas(4096) float dv[BATCH * SEQLEN_K * HEADS_KV * DIM_V];
  _Alignas(4096) unsigned char workspace[WORKSPACE_BYTES];
} problem;

/* Fills the inputs with values in [-1, 1], all else with bytes 0xa5. */
void problem_fill(problem *p);

/* The arguments of all passes on it; no workspace. */
fa_args problem_args(problem *p);

/* A cpu context of that many threads. */
fa_context *problem_context(int threads);

/* The kernel of this problem's dimensions; causal is off. */
const fa_kernel *problem_kernel(fa_context *context, fa_pass pass);

#endif
