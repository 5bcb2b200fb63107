/* dense.c: see dense.h. */
#include "dense.h"

#include "gen/spec.h"
#include "runtime/cli/layout.h"
#include "runtime/cli/random.h"
#include "runtime/cli/storage.h"

#include <stdlib.h>
#include <string.h>

static fa_tensor tensor_of(const dense *problem, trial_tensor tensor) {
  const int64_t *stride = problem->shapes[tensor].stride;
  return (fa_tensor){problem->memory[tensor], stride[0], stride[1], stride[2]};
}

static void set_tensors(dense *problem) {
  fa_args *args = &problem->args;
  args->q = tensor_of(problem, TRIAL_Q);
  args->k = tensor_of(problem, TRIAL_K);
  args->v = tensor_of(problem, TRIAL_V);
  args->o = tensor_of(problem, TRIAL_O);
  args->lse = problem->memory[TRIAL_LSE];
  args->dout = tensor_of(problem, TRIAL_DOUT);
  args->dq = tensor_of(problem, TRIAL_DQ);
  args->dk = tensor_of(problem, TRIAL_DK);
  args->dv = tensor_of(problem, TRIAL_DV);
}

void dense_create(dense *out, const char *words, int64_t batch, int64_t heads, int64_t seqlen_q,
                  int64_t seqlen_k) {
  trial_options options = trial_of(words, batch, heads, seqlen_q, seqlen_k);
  *out = (dense){.spec = FA_SPEC_INIT, .args = FA_ARGS_INIT};
  expect_ok(spec_canonicalise(&out->spec, &options.spec));
  layout_shapes(out->shapes, &out->spec, &options.sizes);
  for (int i = 0; i < TRIAL_TENSORS; ++i) {
    out->memory[i] = calloc(1, dense_bytes(out, i) + 1);
    assert_non_null(out->memory[i]);
  }
  out->args.batch = batch;
  out->args.heads_q = options.sizes.heads_q;
  out->args.heads_kv = options.sizes.heads_kv;
  out->args.seqlen_q = seqlen_q;
  out->args.seqlen_k = seqlen_k;
  out->args.dtype = out->spec.dtype;
  out->args.dim_qk = out->spec.dim_qk;
  out->args.dim_v = out->spec.dim_v;
  out->args.target = out->spec.target;
  out->args.causal = out->spec.causal;
  out->args.deterministic = out->spec.deterministic;
  set_tensors(out);
}

void dense_free(dense *problem) {
  for (int i = 0; i < TRIAL_TENSORS; ++i) free(problem->memory[i]);
}

double dense_normal(const void *with, trial_tensor tensor, const int64_t at[4]) {
  const uint64_t *seed = with;
  return random_normal(*seed, tensor, at);
}

void dense_fill(dense *problem, trial_tensor tensor, trial_fill value, const void *with) {
  const view *shape = &problem->shapes[tensor];
  int64_t at[4] = {0};
  if (dense_count(problem, tensor) == 0) return;
  do {
    int64_t index = 0;
    for (int axis = 0; axis < 4; ++axis) index += at[axis] * shape->stride[axis];
    dense_set(problem, tensor, index, value(with, tensor, at));
  } while (view_next(at, shape->extent));
}

void dense_fill_inputs(dense *problem, trial_fill value, const void *with) {
  for (int i = TRIAL_Q; i <= TRIAL_DLSE; ++i) dense_fill(problem, i, value, with);
}

int64_t dense_count(const dense *problem, trial_tensor tensor) {
  return view_count(problem->shapes[tensor].extent);
}

size_t dense_bytes(const dense *problem, trial_tensor tensor) {
  return (size_t)dense_count(problem, tensor) * storage_bytes(problem->shapes[tensor].dtype);
}

static char *element(const dense *problem, trial_tensor tensor, int64_t index) {
  size_t bytes = storage_bytes(problem->shapes[tensor].dtype);
  return (char *)problem->memory[tensor] + (size_t)index * bytes;
}

double dense_get(const dense *problem, trial_tensor tensor, int64_t index) {
  return storage_read(element(problem, tensor, index), problem->shapes[tensor].dtype);
}

void dense_set(dense *problem, trial_tensor tensor, int64_t index, double value) {
  storage_write(element(problem, tensor, index), value, problem->shapes[tensor].dtype);
}

double dense_at(const dense *problem, trial_tensor tensor, int64_t batch, int64_t row, int64_t head,
                int64_t column) {
  const int64_t *stride = problem->shapes[tensor].stride;
  int64_t index = batch * stride[0] + row * stride[1] + head * stride[2] + column * stride[3];
  return dense_get(problem, tensor, index);
}

static fa_args arguments(const dense *problem) {
  fa_args args = problem->args;
  args.variants = problem->spec.variants;
  return args;
}

void dense_forward(fa_context *context, dense *problem) {
  fa_args args = arguments(problem);
  expect_ok(fa_forward(context, &args, NULL));
}

void dense_both(fa_context *context, dense *problem) {
  fa_args args = arguments(problem);
  expect_ok(fa_forward(context, &args, NULL));
  expect_ok(fa_backward(context, &args, NULL));
}

void assert_same_bytes(const dense *a, const dense *b, trial_tensor tensor) {
  size_t bytes = dense_bytes(a, tensor);
  assert_int_equal(bytes, dense_bytes(b, tensor));
  if (!memcmp(a->memory[tensor], b->memory[tensor], bytes)) return;
  for (int64_t i = 0; i < dense_count(a, tensor); ++i)
    if (memcmp(element(a, tensor, i), element(b, tensor, i),
               storage_bytes(a->shapes[tensor].dtype)))
      fail_msg("%s: element %d is %.9g and %.9g", trial_tensor_name(tensor), (int)i,
               dense_get(a, tensor, i), dense_get(b, tensor, i));
}

void assert_all_near(const dense *problem, trial_tensor tensor, double wanted, double tolerance) {
  for (int64_t i = 0; i < dense_count(problem, tensor); ++i)
    assert_near(trial_tensor_name(tensor), dense_get(problem, tensor, i), wanted, tolerance);
}
