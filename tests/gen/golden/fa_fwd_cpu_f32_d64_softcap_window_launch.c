/* fa_fwd_cpu_f32_d64_softcap_window_launch
 *
 * Emitted by fagen 0.1.0 from the spec
 *   fwd cpu f32 d64 softcap window
 * The launch plan of that kernel, problem in, steps out, as one pure C99 function
 *   fa_fwd_cpu_f32_d64_softcap_window_plan
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

typedef float element; /* one value of a tensor */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;

/* The parameters of the variants. */
typedef struct parameters {
  float softcap_cap;
  long long window_left;
  long long window_right;
} parameters;

typedef struct forward_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor q, k, v, o;
  float *lse; /* batch x heads_q x seqlen_q */
  float softmax_scale;
  parameters p;
} forward_args;

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
  to->softcap_cap = (float)in->params[0].value;
  to->window_left = (long long)in->params[1].value;
  to->window_right = (long long)in->params[2].value;
}

void fa_fwd_cpu_f32_d64_softcap_window_plan(const fa_problem *in, fa_plan *out) {
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;

  forward_args *a = add_step(
      out, "fa_fwd_cpu_f32_d64_softcap_window_main",
      query_tiles, in->heads_q, in->batch, 98816, sizeof *a);
  a->seqlen_q = in->seqlen_q;
  a->seqlen_k = in->seqlen_k;
  a->heads_q = in->heads_q;
  set_tensor(&a->q, &in->q);
  set_tensor(&a->k, &in->k);
  set_tensor(&a->v, &in->v);
  set_tensor(&a->o, &in->o);
  a->lse = in->lse;
  a->softmax_scale = in->softmax_scale;
  set_parameters(&a->p, in);
}
