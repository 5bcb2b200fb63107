/* hello.c: one causal attention forward on the processor, on random numbers. */
#include <stdio.h>
#include <stdlib.h>

#include <fagen.h>

enum { BATCH = 2, HEADS = 4, HEADS_KV = 2, SEQLEN = 100, DIM = 64 };

static float q[BATCH * SEQLEN * HEADS * DIM], o[BATCH * SEQLEN * HEADS * DIM];
static float k[BATCH * SEQLEN * HEADS_KV * DIM], v[BATCH * SEQLEN * HEADS_KV * DIM];
static float lse[BATCH * HEADS * SEQLEN];

static void fill(float *x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = 2 * (float)rand() / (float)RAND_MAX - 1;
}

int main(void) {
  fill(q, sizeof q / sizeof *q);
  fill(k, sizeof k / sizeof *k);
  fill(v, sizeof v / sizeof *v);

  fa_context *context;
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CPU;
  fa_status status = fa_context_create(&context, &options);
  if (status != FA_OK) {
    fprintf(stderr, "%s: %s\n", fa_status_name(status), fa_error_message());
    return 1;
  }

  fa_args args = FA_ARGS_INIT;
  args.batch = BATCH;
  args.heads_q = HEADS;
  args.heads_kv = HEADS_KV; /* two query heads share one key/value head */
  args.seqlen_q = args.seqlen_k = SEQLEN;
  args.dtype = FA_F32;
  args.dim_qk = DIM;
  args.causal = 1;
  args.q = fa_bshd(q, SEQLEN, HEADS, DIM);
  args.k = fa_bshd(k, SEQLEN, HEADS_KV, DIM);
  args.v = fa_bshd(v, SEQLEN, HEADS_KV, DIM);
  args.o = fa_bshd(o, SEQLEN, HEADS, DIM);
  args.lse = lse;
  status = fa_forward(context, &args, NULL);
  if (status == FA_OK)
    printf("last row of the first head: O[0] = %f, LSE = %f\n",
           (double)o[(SEQLEN - 1) * HEADS * DIM], (double)lse[SEQLEN - 1]);
  else
    fprintf(stderr, "%s: %s\n", fa_status_name(status), fa_error_message());
  fa_context_destroy(context);
  return status == FA_OK ? 0 : 1;
}
