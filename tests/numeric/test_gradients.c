/* test_gradients.c: the kernel's gradients against central finite differences, of the float64
   reference and of the kernel itself; dLSE; the preprocess pass alone. */
#include "dense.h"

#include "runtime/cli/oracle.h"
#include "runtime/cli/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 3;

/* ---- The loss whose gradients dO and dLSE stand for -------------------------------------- */

static double loss_of(const dense *p, const double *o, const double *lse) {
  double sum = 0;
  for (int64_t i = 0; i < dense_count(p, TRIAL_O); ++i) sum += o[i] * dense_get(p, TRIAL_DOUT, i);
  for (int64_t i = 0; i < dense_count(p, TRIAL_LSE); ++i)
    if (lse[i] != -INFINITY) sum += lse[i] * dense_get(p, TRIAL_DLSE, i);
  return sum;
}

static double *doubles_of(const dense *p, trial_tensor tensor) {
  double *values = calloc((size_t)dense_count(p, tensor) + 1, sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < dense_count(p, tensor); ++i) values[i] = dense_get(p, tensor, i);
  return values;
}

static double kernel_loss(dense *p) {
  dense_forward(support_context(), p);
  double *o = doubles_of(p, TRIAL_O), *lse = doubles_of(p, TRIAL_LSE);
  double sum = loss_of(p, o, lse);
  free(o);
  free(lse);
  return sum;
}

static int keep_causal(const void *with, const cli_pair *pair) {
  const dense *p = with;
  return pair->key <= pair->row + p->args.seqlen_k - p->args.seqlen_q;
}

static double double_score(const void *with, const cli_pair *pair, double s, double *derivative) {
  (void)with, (void)pair;
  *derivative = 2;
  return 2 * s;
}

static double reference_loss(dense *p) {
  double *q = doubles_of(p, TRIAL_Q), *k = doubles_of(p, TRIAL_K), *v = doubles_of(p, TRIAL_V);
  double *o = doubles_of(p, TRIAL_O), *lse = doubles_of(p, TRIAL_LSE);
  reference_problem in = {.batch = p->args.batch, .q = q, .k = k, .v = v};
  in.heads_q = p->args.heads_q;
  in.heads_kv = p->args.heads_kv;
  in.seqlen_q = p->args.seqlen_q;
  in.seqlen_k = p->args.seqlen_k;
  in.dim_qk = p->spec.dim_qk;
  in.dim_v = p->spec.dim_v;
  in.softmax_scale = p->args.softmax_scale;
  in.with = p;
  if (p->spec.causal) in.keep = keep_causal;
  if (p->spec.variants[0]) in.score = double_score;
  expect_ok(reference_forward(&in, o, lse));
  double sum = loss_of(p, o, lse);
  free(q), free(k), free(v), free(o), free(lse);
  return sum;
}

/* ---- Differences ------------------------------------------------------------------------- */

static double difference(dense *p, trial_tensor input, int64_t index, double step,
                         double (*loss)(dense *)) {
  double kept = dense_get(p, input, index);
  dense_set(p, input, index, kept + step);
  double above = loss(p);
  dense_set(p, input, index, kept - step);
  double below = loss(p);
  dense_set(p, input, index, kept);
  return (above - below) / (2 * step);
}

/* Two steps, extrapolated: the error is of fourth order, so that the step may be wide enough for
   the kernel's f32 noise to stay small. Steps are powers of two, which leave the inputs exact. */
static double extrapolated(dense *p, trial_tensor input, int64_t index, double (*loss)(dense *)) {
  double wide = difference(p, input, index, 0x1p-4, loss);
  double narrow = difference(p, input, index, 0x1p-5, loss);
  return (4 * narrow - wide) / 3;
}

static void assert_differences(const char *words, double (*loss)(dense *), double tolerance) {
  static const trial_tensor inputs[] = {TRIAL_Q, TRIAL_K, TRIAL_V};
  static const trial_tensor gradients[] = {TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  dense p;
  double worst = 0;
  dense_create(&p, words, 1, 4, 3, 5);
  dense_fill_inputs(&p, dense_normal, &seed);
  p.args.softmax_scale = 0.375f;
  p.args.dlse = p.device[TRIAL_DLSE];
  dense_both(support_context(), &p);
  for (size_t n = 0; n < COUNT_OF(inputs); ++n)
    for (int64_t i = 0; i < dense_count(&p, inputs[n]); ++i) {
      double wanted = extrapolated(&p, inputs[n], i, loss);
      double got = dense_get(&p, gradients[n], i);
      assert_near(trial_tensor_name(gradients[n]), got, wanted, tolerance);
      if (fabs(got - wanted) > worst) worst = fabs(got - wanted);
    }
  print_message("largest difference, %s: %.2e\n", words, worst);
  dense_free(&p);
}

static void gradients_agree_with_differences_of_the_reference(void **state) {
  (void)state;
  cpu_only("steps as small as this need f32; the reference is compared with the kernel");
  assert_differences("bwd cpu f32 d8 v16 gqa2", reference_loss, 2e-5);
  assert_differences("bwd cpu f32 d8 v16 gqa2 causal", reference_loss, 2e-5);
  assert_differences("bwd cpu f32 d8 v16 gqa2 causal twice", reference_loss, 1e-4);
}

static void gradients_agree_with_differences_of_the_kernel(void **state) {
  (void)state;
  cpu_only("a loss of f16 outputs is too coarse for differences");
  assert_differences("bwd cpu f32 d8 v16 gqa2", kernel_loss, 1e-4);
  assert_differences("bwd cpu f32 d8 v16 gqa2 causal", kernel_loss, 1e-4);
  assert_differences("bwd cpu f32 d8 v16 gqa2 causal twice", kernel_loss, 2e-4);
}

/* ---- dLSE and D -------------------------------------------------------------------------- */

static void a_gradient_into_lse_is_carried_on(void **state) {
  static const char *const words[] = {"bwd cpu f32 d64 gqa2", "bwd cpu f32 d40 gqa2 causal",
                                      "bwd cpu f16 d64 gqa2 causal",
                                      "bwd cpu bf16 d64 gqa2 causal"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i)
    for (int layout = 0; layout < TRIAL_LAYOUTS; ++layout) {
      trial_options options = trial_of(words[i], 2, 4, 70, 50);
      options.with_dlse = 1;
      options.layout = layout;
      assert_trial_right(&options);
    }
}

static void preprocess_alone_leaves_d_in_the_workspace(void **state) {
  static const char *const words[] = {"pre cpu f32 d64", "pre cpu f16 d72 v40",
                                      "pre cpu bf16 d128 v256"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i)
    for (int with_dlse = 0; with_dlse < 2; ++with_dlse)
      for (int layout = 0; layout < TRIAL_LAYOUTS; ++layout) {
        trial_options options = trial_of(words[i], 3, 2, 131, 20);
        options.with_dlse = with_dlse;
        options.layout = layout;
        assert_trial_right(&options);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_agree_with_differences_of_the_reference),
      cmocka_unit_test(gradients_agree_with_differences_of_the_kernel),
      cmocka_unit_test(a_gradient_into_lse_is_carried_on),
      cmocka_unit_test(preprocess_alone_leaves_d_in_the_workspace),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
