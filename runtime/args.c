/* args.c: everything that can be wrong with a caller's arguments, found before anything runs. */
#include "args.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "overlap.h"
#include "parameters.h"
#include "spec.h"

/* ---- Sizes --------------------------------------------------------------------------------- */

static fa_status check_size(const char *field, int64_t size) {
  if (size >= 0 && size <= INT32_MAX) return FA_OK;
  return fail(FA_INVALID, "%s: %lld; must be 0 to %d", field, (long long)size, INT32_MAX);
}

/* A field in which 0 means "as the kernel". */
static fa_status check_agrees(const char *field, int64_t given, int64_t of_kernel,
                              const fa_kernel *kernel) {
  if (given == 0 || given == of_kernel) return FA_OK;
  return fail(FA_INVALID, "%s: %lld; kernel %s has %lld (0 = as the kernel)", field,
              (long long)given, kernel->name, (long long)of_kernel);
}

static fa_status check_selection(const fa_kernel *kernel, const fa_args *args) {
  const fa_spec *spec = &kernel->spec;
  fa_status status = check_agrees("dtype", args->dtype, spec->dtype, kernel);
  if (!status) status = check_agrees("dim_qk", args->dim_qk, spec->dim_qk, kernel);
  if (!status) status = check_agrees("dim_v", args->dim_v, spec->dim_v, kernel);
  if (!status) status = check_agrees("target", args->target, spec->target, kernel);
  if (!status && spec->pass != FA_PRE)
    status = check_agrees("causal", args->causal, spec->causal, kernel);
  if (!status && spec->pass == FA_BWD)
    status = check_agrees("deterministic", args->deterministic, spec->deterministic, kernel);
  if (!status && args->variants && args->variants[0] && spec->pass != FA_PRE &&
      strcmp(args->variants, spec->variants))
    status = fail(FA_INVALID, "variants: '%.100s'; kernel %s has '%s'", args->variants,
                  kernel->name, spec->variants);
  return status;
}

static fa_status check_heads(const fa_kernel *kernel, const fa_args *args) {
  int64_t group = kernel->spec.group;
  if (args->heads_q == args->heads_kv * group) return FA_OK;
  return fail(FA_INVALID, "heads_q: %lld; kernel %s needs heads_kv * %lld = %lld",
              (long long)args->heads_q, kernel->name, (long long)group,
              (long long)(args->heads_kv * group));
}

static fa_status take_scale(float *out, const fa_kernel *kernel, float scale) {
  if (!(scale >= 0) || isinf(scale))
    return fail(FA_INVALID, "softmax_scale: %g; must be finite and > 0, or 0 for 1/sqrt(dim_qk)",
                (double)scale);
  *out = scale > 0 ? scale : 1.0f / sqrtf((float)kernel->spec.dim_qk);
  return FA_OK;
}

/* Kernels of sm90 count rows, and tiles of 64 rows of all heads, in 31 bits. */
static fa_status check_tiles(const fa_kernel *kernel, const fa_args *args) {
  const int q_longer = args->seqlen_q > args->seqlen_k;
  const int64_t longest = q_longer ? args->seqlen_q : args->seqlen_k;
  const int64_t most = INT32_MAX - 255; /* a tile that the last row begins ends within 31 bits */
  const double tiles = (double)args->batch * (double)args->heads_q * (double)(longest / 64 + 1);
  if (kernel->spec.target != FA_TARGET_SM90) return FA_OK;
  if (longest > most)
    return fail(FA_INVALID, "%s: %lld; must be at most %lld on sm90",
                q_longer ? "seqlen_q" : "seqlen_k", (long long)longest, (long long)most);
  if (tiles > (double)most)
    return fail(FA_INVALID,
                "batch * heads_q * seqlen: %.3g tiles of 64 rows; must be at most %lld on sm90",
                tiles, (long long)most);
  return FA_OK;
}

fa_status args_take_sizes(fa_problem *out, fa_plan_param *params, const fa_kernel *kernel,
                          const fa_args *args) {
  memset(out, 0, sizeof *out);
  fa_status status = check_size("batch", args->batch);
  if (!status) status = check_size("heads_q", args->heads_q);
  if (!status) status = check_size("heads_kv", args->heads_kv);
  if (!status) status = check_size("seqlen_q", args->seqlen_q);
  if (!status) status = check_size("seqlen_k", args->seqlen_k);
  if (!status) status = check_heads(kernel, args);
  if (!status) status = check_selection(kernel, args);
  if (!status) status = check_tiles(kernel, args);
  if (!status) status = take_scale(&out->softmax_scale, kernel, args->softmax_scale);
  /* Elements of the largest dense tensor, times 4 bytes, must be countable. */
  double rows = (double)args->batch * (double)args->heads_q *
                (double)(args->seqlen_q > args->seqlen_k ? args->seqlen_q : args->seqlen_k);
  if (!status && rows * FA_DIM_MAX * 4 > 4e18)
    status = fail(FA_INVALID, "batch * heads_q * seqlen: %.3g rows; must be at most 3.9e15", rows);
  if (!status) status = parameters_take(params, kernel, args);
  out->params = params;
  out->batch = args->batch;
  out->heads_q = args->heads_q;
  out->heads_kv = args->heads_kv;
  out->seqlen_q = args->seqlen_q;
  out->seqlen_k = args->seqlen_k;
  out->processors = kernel->context->processors;
  out->l2_bytes = kernel->context->l2_bytes;
  out->workspace_limit = (long long)args->workspace_limit;
  return status;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

/* A tensor of the pass, under its public name. */
typedef struct operand {
  const char *name;
  int output;
  const fa_tensor *tensor;
  fa_plan_tensor *to;
  int64_t batch, seqlen, heads, dim; /* dim 1 and dense: an LSE-shaped f32 array */
  int64_t bytes;                     /* of an element */
  footprint at;
} operand;

enum { MAX_OPERANDS = 12 + 2 * PARAMS_MAX };

typedef struct operand_list {
  operand items[MAX_OPERANDS];
  int count;
  char names[PARAMS_MAX][72]; /* of parameters */
  fa_tensor dense[2 * PARAMS_MAX];
} operand_list;

static int is_empty(const operand *o) {
  return !o->batch || !o->seqlen || !o->heads;
}

/* What a kernel asks of strides, in elements. */
typedef struct stride_rules {
  int64_t unit; /* they are multiples of it */
  int64_t most; /* where there is more than one index */
} stride_rules;

enum { TMA_STRIDE_BITS = 40 }; /* of bytes: how the kernels of sm90 move 16-bit tensors */

static stride_rules rules_of(const operand *o, const fa_kernel *kernel) {
  const int vector_bytes = kernel->context->backend->vector_bytes;
  const int vectors = o->bytes == 2 && vector_bytes > 2;
  stride_rules rules = {.unit = vectors ? vector_bytes / o->bytes : 1, .most = INT64_MAX};
  if (vectors && kernel->spec.target == FA_TARGET_SM90)
    rules.most = ((int64_t)1 << TMA_STRIDE_BITS) / o->bytes - rules.unit;
  return rules;
}

static fa_status check_stride(const operand *o, const char *field, int64_t stride, int64_t extent,
                              const stride_rules *rules) {
  if (stride < 0)
    return fail(FA_INVALID, "%s.%s: %lld; must be 0 or more", o->name, field, (long long)stride);
  if (stride % rules->unit)
    return fail(FA_INVALID, "%s.%s: %lld; must be a multiple of %lld elements", o->name, field,
                (long long)stride, (long long)rules->unit);
  if (extent > 1 && stride > rules->most)
    return fail(FA_INVALID, "%s.%s: %lld; must be at most %lld elements on sm90", o->name, field,
                (long long)stride, (long long)rules->most);
  return FA_OK;
}

/* Computes the footprint; refuses one that does not fit the address space. */
static fa_status place_operand(operand *o) {
  const int64_t extent[OVERLAP_DIMS] = {o->batch, o->seqlen, o->heads, o->dim};
  const int64_t stride[OVERLAP_DIMS] = {o->tensor->stride_batch, o->tensor->stride_seq,
                                        o->tensor->stride_head, 1};
  int64_t last = 0;
  for (int i = 0; i < OVERLAP_DIMS; ++i) {
    int64_t step;
    o->at.extent[i] = extent[i];
    if (__builtin_mul_overflow(stride[i], o->bytes, &o->at.stride[i]) ||
        __builtin_mul_overflow(o->at.stride[i], extent[i] - 1, &step) ||
        __builtin_add_overflow(last, step, &last) || last > INT64_MAX / 4)
      return fail(FA_INVALID, "%s: strides %lld %lld %lld reach past the address space", o->name,
                  (long long)stride[0], (long long)stride[1], (long long)stride[2]);
  }
  o->at.begin = (uintptr_t)o->tensor->data;
  o->at.end = o->at.begin + (uintptr_t)(last + o->bytes);
  return FA_OK;
}

static fa_status check_address(const operand *o, const fa_context *context, int64_t alignment) {
  const void *data = o->tensor->data;
  if (!data)
    return fail(FA_INVALID, "%s: NULL; %lld x %lld x %lld x %lld elements are required", o->name,
                (long long)o->batch, (long long)o->seqlen, (long long)o->heads, (long long)o->dim);
  if ((uintptr_t)data % (uintptr_t)alignment)
    return fail(FA_INVALID, "%s: address %p; must be a multiple of %lld", o->name, data,
                (long long)alignment);
  return context->backend->check_memory(context, o->name, data);
}

static fa_status check_operand(operand *o, const fa_kernel *kernel) {
  const stride_rules rules = rules_of(o, kernel);
  const fa_tensor *t = o->tensor;
  fa_status status = check_stride(o, "stride_batch", t->stride_batch, o->batch, &rules);
  if (!status) status = check_stride(o, "stride_seq", t->stride_seq, o->seqlen, &rules);
  if (!status) status = check_stride(o, "stride_head", t->stride_head, o->heads, &rules);
  if (status || is_empty(o)) return status;
  status = check_address(o, kernel->context, rules.unit * o->bytes);
  if (!status) status = place_operand(o);
  if (!status && o->output && overlap_self(&o->at))
    status = fail(
        FA_INVALID, "%s: strides %lld %lld %lld let its own elements overlap; an output may not",
        o->name, (long long)t->stride_batch, (long long)t->stride_seq, (long long)t->stride_head);
  return status;
}

static fa_status check_overlaps(const operand_list *list) {
  for (int i = 0; i < list->count; ++i)
    for (int j = 0; j < list->count; ++j) {
      const operand *a = &list->items[i], *b = &list->items[j];
      int twice = b->output && j < i; /* seen as (j, i) */
      if (i == j || !a->output || twice || is_empty(a) || is_empty(b)) continue;
      if (overlap_pair(&a->at, &b->at))
        return fail(FA_INVALID, "%s: overlaps %s; an output may overlap nothing", a->name, b->name);
    }
  return FA_OK;
}

static void add(operand_list *list, const char *name, int output, const fa_tensor *tensor,
                fa_plan_tensor *to, const int64_t shape[4], int64_t bytes) {
  list->items[list->count++] = (operand){.name = name,
                                         .output = output,
                                         .tensor = tensor,
                                         .to = to,
                                         .batch = shape[0],
                                         .seqlen = shape[1],
                                         .heads = shape[2],
                                         .dim = shape[3],
                                         .bytes = bytes};
}

/* What each pass reads and writes. rows and drows receive lse and dlse as dense tensors. */
static void list_operands(operand_list *list, fa_problem *p, const fa_kernel *kernel,
                          const fa_args *a, fa_tensor *rows, fa_tensor *drows) {
  const fa_spec *spec = &kernel->spec;
  const int64_t bytes = spec_dtype_bytes(spec->dtype);
  const int64_t q[] = {a->batch, a->seqlen_q, a->heads_q, spec->dim_qk};
  const int64_t o[] = {a->batch, a->seqlen_q, a->heads_q, spec->dim_v};
  const int64_t k[] = {a->batch, a->seqlen_k, a->heads_kv, spec->dim_qk};
  const int64_t v[] = {a->batch, a->seqlen_k, a->heads_kv, spec->dim_v};
  const int64_t row[] = {a->batch, a->seqlen_q, a->heads_q, 1};
  const int fwd = spec->pass == FA_FWD, bwd = spec->pass == FA_BWD;
  *rows = fa_bhsd(a->lse, a->seqlen_q, a->heads_q, 1);
  *drows = fa_bhsd((void *)a->dlse, a->seqlen_q, a->heads_q, 1);
  if (fwd || bwd) {
    add(list, "q", 0, &a->q, &p->q, q, bytes);
    add(list, "k", 0, &a->k, &p->k, k, bytes);
    add(list, "v", 0, &a->v, &p->v, v, bytes);
    add(list, "lse", fwd, rows, NULL, row, sizeof(float));
  }
  add(list, "o", fwd, &a->o, &p->o, o, bytes);
  if (fwd) return;
  add(list, "dout", 0, &a->dout, &p->dout, o, bytes);
  if (a->dlse) add(list, "dlse", 0, drows, NULL, row, sizeof(float));
  if (!bwd) return;
  add(list, "dq", 1, &a->dq, &p->dq, q, bytes);
  add(list, "dk", 1, &a->dk, &p->dk, k, bytes);
  add(list, "dv", 1, &a->dv, &p->dv, v, bytes);
}

/* Adds n dense elements of 4 bytes, which belong to the parameter in `slot`. */
static void add_dense(operand_list *list, int slot, int output, const void *data, int64_t n) {
  fa_tensor *dense = &list->dense[2 * slot + output];
  const int64_t shape[] = {1, n, 1, 1};
  *dense = fa_bshd((void *)data, n, 1, 1);
  add(list, list->names[slot], output, dense, NULL, shape, sizeof(float));
}

/* Tables are inputs, and what receives their gradients is an output. */
static void add_parameters(operand_list *list, const fa_problem *problem, const fa_kernel *kernel) {
  for (int i = 0; i < kernel->params.count; ++i) {
    const fa_plan_param *param = &problem->params[i];
    const int is_table = param_is_table(&kernel->params.items[i]);
    snprintf(list->names[i], sizeof list->names[i], "%s", parameters_name(kernel, i));
    if (is_table) add_dense(list, i, 0, param->data, param->length);
    if (param->grad) add_dense(list, i, 1, param->grad, is_table ? param->length : 1);
  }
}

/* The workspace is one more output, of bytes. */
static void add_workspace(operand_list *list, const fa_args *args, fa_tensor *bytes) {
  *bytes = fa_bhsd(args->workspace, 1, 1, (int64_t)args->workspace_size);
  const int64_t shape[] = {args->workspace && args->workspace_size, 1, 1,
                           (int64_t)args->workspace_size};
  add(list, "workspace", 1, bytes, NULL, shape, 1);
}

fa_status args_take_tensors(fa_problem *problem, const fa_kernel *kernel, const fa_args *args) {
  operand_list list; /* large: only what is added is set */
  list.count = 0;
  fa_tensor rows, drows, workspace;
  list_operands(&list, problem, kernel, args, &rows, &drows);
  add_parameters(&list, problem, kernel);
  add_workspace(&list, args, &workspace);
  fa_status status = parameters_complete(kernel, args);
  for (int i = 0; !status && i < list.count; ++i) status = check_operand(&list.items[i], kernel);
  if (!status) status = check_overlaps(&list);
  for (int i = 0; i < list.count; ++i) {
    fa_plan_tensor *to = list.items[i].to;
    const fa_tensor *from = list.items[i].tensor;
    if (to)
      *to = (fa_plan_tensor){from->data, from->stride_batch, from->stride_seq, from->stride_head};
  }
  problem->lse = args->lse;
  problem->dlse = args->dlse;
  return status;
}
