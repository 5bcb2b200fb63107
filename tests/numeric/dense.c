/* dense.c: see dense.h. */
#include "dense.h"

#include "gen/spec.h"
#include "runtime/cli/layout.h"
#include "runtime/cli/random.h"
#include "runtime/cli/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static fa_tensor tensor_of(const dense *problem, trial_tensor tensor) {
  const int64_t *stride = problem->shapes[tensor].stride;
  return (fa_tensor){problem->device[tensor], stride[0], stride[1], stride[2]};
}

static void set_tensors(dense *problem) {
  fa_args *args = &problem->args;
  args->q = tensor_of(problem, TRIAL_Q);
  args->k = tensor_of(problem, TRIAL_K);
  args->v = tensor_of(problem, TRIAL_V);
  args->o = tensor_of(problem, TRIAL_O);
  args->lse = problem->device[TRIAL_LSE];
  args->dout = tensor_of(problem, TRIAL_DOUT);
  args->dq = tensor_of(problem, TRIAL_DQ);
  args->dk = tensor_of(problem, TRIAL_DK);
  args->dv = tensor_of(problem, TRIAL_DV);
}

static void allocate(dense *out, trial_tensor tensor) {
  size_t bytes = dense_bytes(out, tensor) + 1;
  out->memory[tensor] = out->device[tensor] = calloc(1, bytes);
  assert_non_null(out->memory[tensor]);
  if (on_gpu()) expect_ok(fa_memory_alloc(&out->device[tensor], out->context, bytes));
}

void dense_create(dense *out, const char *words, int64_t batch, int64_t heads, int64_t seqlen_q,
                  int64_t seqlen_k) {
  dense_create_on(out, support_context(), words, batch, heads, seqlen_q, seqlen_k);
}

void dense_create_on(dense *out, fa_context *context, const char *words, int64_t batch,
                     int64_t heads, int64_t seqlen_q, int64_t seqlen_k) {
  trial_options options = trial_of(words, batch, heads, seqlen_q, seqlen_k);
  *out = (dense){.context = context, .spec = FA_SPEC_INIT, .args = FA_ARGS_INIT};
  expect_ok(spec_canonicalise(&out->spec, &options.spec));
  layout_shapes(out->shapes, &out->spec, &options.sizes);
  for (int i = 0; i < TRIAL_TENSORS; ++i) allocate(out, i);
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
  for (int i = 0; i < TRIAL_TENSORS; ++i) {
    free(problem->memory[i]);
    if (on_gpu()) fa_memory_free(problem->context, problem->device[i]);
  }
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

/* ---- Launches ---------------------------------------------------------------------------- */

void *dense_address(const dense *problem, trial_tensor tensor, int64_t index) {
  size_t bytes = storage_bytes(problem->shapes[tensor].dtype);
  return (char *)problem->device[tensor] + index * (int64_t)bytes;
}

void dense_upload(dense *problem) {
  for (int i = 0; i < TRIAL_D && on_gpu(); ++i)
    expect_ok(fa_memory_copy(problem->context, problem->device[i], problem->memory[i],
                             dense_bytes(problem, i), NULL));
}

void dense_download(dense *problem, struct CUstream_st *stream) {
  for (int i = TRIAL_O; i < TRIAL_D && on_gpu(); ++i)
    expect_ok(fa_memory_copy(problem->context, problem->memory[i], problem->device[i],
                             dense_bytes(problem, i), stream));
}

void dense_launch(fa_context *context, const dense *problem, int pass, struct CUstream_st *stream) {
  fa_args args = problem->args;
  args.variants = problem->spec.variants;
  expect_ok(pass == FA_FWD ? fa_forward(context, &args, stream)
                           : fa_backward(context, &args, stream));
}

void dense_forward(fa_context *context, dense *problem) {
  dense_upload(problem);
  dense_launch(context, problem, FA_FWD, NULL);
  dense_download(problem, NULL);
}

void dense_both(fa_context *context, dense *problem) {
  dense_upload(problem);
  dense_launch(context, problem, FA_FWD, NULL);
  dense_launch(context, problem, FA_BWD, NULL);
  dense_download(problem, NULL);
}

/* ---- Comparison -------------------------------------------------------------------------- */

static void assert_same_sums(const dense *a, const dense *b, trial_tensor tensor) {
  double largest = 0;
  for (int64_t i = 0; i < dense_count(b, tensor); ++i)
    largest = fmax(largest, fabs(dense_get(b, tensor, i)));
  for (int64_t i = 0; i < dense_count(a, tensor); ++i)
    assert_same_sum(tensor, dense_get(a, tensor, i), dense_get(b, tensor, i), largest,
                    a->shapes[tensor].dtype);
}

void assert_same_bytes(const dense *a, const dense *b, trial_tensor tensor) {
  size_t bytes = dense_bytes(a, tensor);
  assert_int_equal(bytes, dense_bytes(b, tensor));
  if (!memcmp(a->memory[tensor], b->memory[tensor], bytes)) return;
  if (!is_repeatable(a->spec.target, a->spec.deterministic, a->spec.group > 1, tensor)) {
    assert_same_sums(a, b, tensor);
    return;
  }
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
