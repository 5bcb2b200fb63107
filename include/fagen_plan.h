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
