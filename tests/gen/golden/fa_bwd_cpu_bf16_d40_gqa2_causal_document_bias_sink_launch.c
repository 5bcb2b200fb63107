/* fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_launch
 *
 * Emitted by fagen 0.1.0 from the spec
 *   bwd cpu bf16 d40 gqa2 causal document bias sink
 * The launch plan of that kernel, problem in, steps out, as one pure C99 function
 *   fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_plan
 * that includes nothing and calls nothing.
 */

/* fagen_plan.h: the plan of a launch, problem in, plan out.
 *
 * Every kernel comes with one emitted C function, NAME_plan, that turns a problem into steps. The
 * runtime, or a host program that compiled the emitted NAME_launch.c, then launches the steps in
 * order on one stream. The function is pure: it calls nothing, allocates nothing and reads no
 * tensor.
 *
 * This text is also pasted into the emitted launch code, where libtcc compiles it with no headers:
 * plain C99 types only, no includes, structs passed by pointer.
 */
#ifndef FAGEN_PLAN_H
#define FAGEN_PLAN_H

enum { FA_PLAN_MAX_STEPS = 12, FA_PLAN_MAX_PARTS = 12 };
enum { FA_PLAN_MAX_MAPS = 8, FA_PLAN_ARG_WORDS = 160 };

/* Sizes and strides in elements, as in fa_args. */
typedef struct fa_plan_tensor {
  void *data;
  long long stride_batch, stride_seq, stride_head;
} fa_plan_tensor;

typedef struct fa_plan_param {
  double value;
  const void *data;
  long long length;
  float *grad;
} fa_plan_param;

/* What a plan may depend on. Checked by the caller: the plan does not refuse. */
typedef struct fa_problem {
  long long batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  float softmax_scale; /* > 0 */
  int processors;      /* multiprocessors of the GPU, or threads on cpu */
  long long l2_bytes;
  long long workspace_limit; /* 0 = none */
  fa_plan_tensor q, k, v, o, dout, dq, dk, dv;
  float *lse;
  const float *dlse;
  char *workspace; /* NULL while only the size is asked for */
  const fa_plan_param *params;
} fa_problem;

/* One TMA tensor map, in the terms of cuTensorMapEncodeTiled; rank-many entries count. */
typedef struct fa_plan_map {
  void *base;
  int element_bytes;
  int rank;
  unsigned long long extent[5];       /* elements, innermost first */
  unsigned long long stride_bytes[4]; /* of extent[1] and on */
  unsigned box[5];                    /* elements */
  int swizzle_bytes;                  /* 0, 32, 64, 128 */
  int l2_promotion_bytes;             /* 0, 64, 128, 256 */
} fa_plan_map;

/* One launch; a step whose grid is empty is left out. The maps come first among the kernel's
   parameters, then the argument block. */
typedef struct fa_step {
  const char *entry;
  unsigned grid[3], block[3];
  unsigned cluster[3];   /* 0 0 0 = none */
  unsigned shared_bytes; /* dynamic shared memory a block; on cpu, scratch a thread */
  int programmatic;      /* launched with programmatic stream serialisation */
  int cooperative;       /* all blocks resident at once */
  int num_maps;
  unsigned arg_bytes;
  fa_plan_map maps[FA_PLAN_MAX_MAPS];
  unsigned long long args[FA_PLAN_ARG_WORDS]; /* the argument block, as the kernel declares it */
} fa_step;

/* A named stretch of the workspace. */
typedef struct fa_plan_part {
  const char *name;
  unsigned long long offset, bytes;
} fa_plan_part;

typedef struct fa_plan {
  int num_steps;
  int num_parts;
  unsigned long long workspace_bytes;
  fa_plan_part parts[FA_PLAN_MAX_PARTS];
  fa_step steps[FA_PLAN_MAX_STEPS];
} fa_plan;

/* The type of every NAME_plan. */
typedef void (*fa_plan_function)(const fa_problem *in, fa_plan *out);

#endif

typedef unsigned short element; /* one value of a tensor; the bits of bf16 */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;

/* The parameters of the variants. */
typedef struct parameters {
  const int *document_k_ids; /* batch x seqlen_k */
  const int *document_q_ids; /* batch x seqlen_q */
  const float *bias_table; /* heads_q x distances */
  long long bias_table_length; /* distances */
  const float *sink_logit; /* heads_q */
} parameters;

/* Where each block of main leaves what it adds to the gradients of parameters. */
typedef struct gradient_parts {
  float *bias_table;
  float *sink_logit;
} gradient_parts;

typedef struct preprocess_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor o, dout;
  const float *dlse; /* batch x heads_q x seqlen_q, or NULL */
  float *d;          /* batch x heads_q x seqlen_q: rowsum(dO * O) - dLSE */
  float *dq_sum;     /* batch x heads_q x seqlen_q x LD_QK, to be cleared */
  int *progress;     /* batch x heads_kv x key tiles, to be cleared */
} preprocess_args;

typedef struct backward_args {
  long long seqlen_q, seqlen_k, heads_q, heads_kv;
  tensor q, k, v, dout, dk, dv;
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dq_sum;        /* batch x heads_q x seqlen_q x LD_QK */
  int *progress;        /* batch x heads_kv x key tiles: query tiles behind each key tile */
  float softmax_scale;
  parameters p;
  gradient_parts parts;
} backward_args;

typedef struct convert_args {
  long long seqlen_q, heads_q;
  tensor dq;
  const float *dq_sum;
  float softmax_scale;
} convert_args;

typedef struct gradient_args {
  long long batch, seqlen_q, seqlen_k, heads_q, heads_kv;
  parameters p;
  gradient_parts parts, out; /* out: the gradients; NULL where none is wanted */
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dsink;         /* batch x heads_q: gradient of each row's logit, rows summed */
} gradient_args;

enum { QUERIES = 64, KEYS = 64 };

static void set_tensor(tensor *to, const fa_plan_tensor *from) {
  to->data = from->data;
  to->stride_batch = from->stride_batch;
  to->stride_seq = from->stride_seq;
  to->stride_head = from->stride_head;
}

/* Adds a step and gives its argument block. */
static void *add_step(fa_plan *out, const char *entry, long long x, long long y, long long z,
                      unsigned scratch_bytes, unsigned arg_bytes) {
  fa_step *step = &out->steps[out->num_steps++];
  step->entry = entry;
  step->grid[0] = (unsigned)x;
  step->grid[1] = (unsigned)y;
  step->grid[2] = (unsigned)z;
  step->block[0] = step->block[1] = step->block[2] = 1;
  step->cluster[0] = step->cluster[1] = step->cluster[2] = 0;
  step->shared_bytes = scratch_bytes;
  step->programmatic = step->cooperative = step->num_maps = 0;
  step->arg_bytes = arg_bytes;
  return step->args;
}

static void set_parameters(parameters *to, const fa_problem *in) {
  to->document_k_ids = in->params[0].data;
  to->document_q_ids = in->params[1].data;
  to->bias_table = in->params[2].data;
  to->bias_table_length = in->params[2].length / (in->heads_q > 0 ? in->heads_q : 1);
  to->sink_logit = in->params[3].data;
}

/* Adds a named part to the workspace; gives its address, NULL while only sizes are asked for. */
static void *add_part(fa_plan *out, const fa_problem *in, const char *name, long long bytes) {
  fa_plan_part *part = &out->parts[out->num_parts++];
  part->name = name;
  part->offset = out->workspace_bytes;
  part->bytes = ((unsigned long long)bytes + 255) / 256 * 256;
  out->workspace_bytes += part->bytes;
  return in->workspace ? in->workspace + part->offset : 0;
}

void fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_plan(const fa_problem *in, fa_plan *out) {
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  const long long key_tiles = (in->seqlen_k + KEYS - 1) / KEYS;
  /* Progress is cleared even where there are keys but no queries. */
  const long long clearing_tiles = key_tiles > 0 && query_tiles == 0 ? 1 : query_tiles;
  const long long rows = in->batch * in->heads_q * in->seqlen_q;
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;
  float *d = add_part(out, in, "D", rows * 4);
  float *dq_sum = add_part(out, in, "dQ sum", rows * 48 * 4);
  int *progress = add_part(out, in, "progress", in->batch * in->heads_kv * key_tiles * 4);
  const long long blocks = in->batch * in->heads_kv * key_tiles;
  gradient_parts parts;
  const long long bias_table_floats = blocks * 2 * (in->params[2].length /
      (in->heads_q > 0 ? in->heads_q : 1));
  const long long sink_logit_floats = 0;
  const long long gradient_floats = bias_table_floats + sink_logit_floats + in->batch
      * in->heads_q;
  float *gradients = add_part(out, in, "parts of gradients", gradient_floats * 4);
  parts.bias_table = gradients;
  parts.sink_logit = parts.bias_table + bias_table_floats;
  float *dsink = parts.sink_logit + sink_logit_floats;

  preprocess_args *p = add_step(
      out, "fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_preprocess",
      clearing_tiles, in->heads_q, in->batch, 0, sizeof *p);
  p->seqlen_q = in->seqlen_q;
  p->seqlen_k = in->seqlen_k;
  p->heads_q = in->heads_q;
  set_tensor(&p->o, &in->o);
  set_tensor(&p->dout, &in->dout);
  p->dlse = in->dlse;
  p->d = d;
  p->dq_sum = dq_sum;
  p->progress = progress;

  backward_args *b = add_step(
      out, "fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_main",
      in->heads_kv, in->batch, key_tiles, 114688, sizeof *b);
  b->seqlen_q = in->seqlen_q;
  b->seqlen_k = in->seqlen_k;
  b->heads_q = in->heads_q;
  b->heads_kv = in->heads_kv;
  set_tensor(&b->q, &in->q);
  set_tensor(&b->k, &in->k);
  set_tensor(&b->v, &in->v);
  set_tensor(&b->dout, &in->dout);
  set_tensor(&b->dk, &in->dk);
  set_tensor(&b->dv, &in->dv);
  b->lse = in->lse;
  b->d = d;
  b->dq_sum = dq_sum;
  b->progress = progress;
  b->softmax_scale = in->softmax_scale;
  set_parameters(&b->p, in);
  b->parts = parts;

  convert_args *c = add_step(
      out, "fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_convert",
      query_tiles, in->heads_q, in->batch, 0, sizeof *c);
  c->seqlen_q = in->seqlen_q;
  c->heads_q = in->heads_q;
  set_tensor(&c->dq, &in->dq);
  c->dq_sum = dq_sum;
  c->softmax_scale = in->softmax_scale;

  gradient_args gradient = {0};
  gradient.batch = in->batch;
  gradient.seqlen_q = in->seqlen_q;
  gradient.seqlen_k = in->seqlen_k;
  gradient.heads_q = in->heads_q;
  gradient.heads_kv = in->heads_kv;
  set_parameters(&gradient.p, in);
  gradient.parts = parts;
  gradient.out.bias_table = in->params[2].grad;
  gradient.out.sink_logit = in->params[3].grad;
  gradient.lse = in->lse;
  gradient.d = d;
  gradient.dsink = dsink;

  gradient_args *sink = add_step(
      out, "fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_sink",
      in->heads_q, in->batch, 1, 0, sizeof *sink);
  *sink = gradient;

  long long elements = 1;
  elements = in->params[2].length > elements ? in->params[2].length : elements;
  elements = in->heads_q > elements ? in->heads_q : elements;
  gradient_args *last = add_step(
      out, "fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_gradients",
      (elements + 255) / 256, 2, 1, 0, sizeof *last);
  *last = gradient;
}
