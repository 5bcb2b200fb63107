/* problem.c: see problem.h. */
#include "problem.h"

#include <string.h>

static void fill(float *values, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
  }
}

void problem_fill(problem *p) {
  memset(p, 0xa5, sizeof *p);
  fill(p->q, COUNT_OF(p->q), 1);
  fill(p->k, COUNT_OF(p->k), 2);
  fill(p->v, COUNT_OF(p->v), 3);
  fill(p->dout, COUNT_OF(p->dout), 4);
  fill(p->dlse, COUNT_OF(p->dlse), 5);
}

fa_args problem_args(problem *p) {
  fa_args a = FA_ARGS_INIT;
  a.batch = BATCH;
  a.heads_q = HEADS_Q;
  a.heads_kv = HEADS_KV;
  a.seqlen_q = SEQLEN_Q;
  a.seqlen_k = SEQLEN_K;
  a.dtype = FA_F32;
  a.dim_qk = DIM_QK;
  a.dim_v = DIM_V;
  a.q = fa_bshd(p->q, SEQLEN_Q, HEADS_Q, DIM_QK);
  a.k = fa_bshd(p->k, SEQLEN_K, HEADS_KV, DIM_QK);
  a.v = fa_bshd(p->v, SEQLEN_K, HEADS_KV, DIM_V);
  a.o = fa_bshd(p->o, SEQLEN_Q, HEADS_Q, DIM_V);
  a.lse = p->lse;
  a.dout = fa_bshd(p->dout, SEQLEN_Q, HEADS_Q, DIM_V);
  a.dlse = p->dlse;
  a.dq = fa_bshd(p->dq, SEQLEN_Q, HEADS_Q, DIM_QK);
  a.dk = fa_bshd(p->dk, SEQLEN_K, HEADS_KV, DIM_QK);
  a.dv = fa_bshd(p->dv, SEQLEN_K, HEADS_KV, DIM_V);
  return a;
}

fa_context *problem_context(int threads) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *context;
  options.backend = FA_CPU;
  options.threads = threads;
  expect_ok(fa_context_create(&context, &options));
  return context;
}

const fa_kernel *problem_kernel(fa_context *context, fa_pass pass) {
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  spec.pass = pass;
  spec.dtype = FA_F32;
  spec.dim_qk = DIM_QK;
  spec.dim_v = DIM_V;
  spec.group = HEADS_Q / HEADS_KV;
  expect_ok(fa_get_kernel(&kernel, context, &spec));
  return kernel;
}
