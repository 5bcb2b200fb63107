/* test_fast_forms.c: what a target's fast form of tanh costs: the errors of O and the gradients
   under softcap, over those of the same kernel with an exact form, in the same dtype. Scores reach
   the cap when Q is scaled by 8. */
#include "dense.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const double most = 1.2;

static fa_context *context;

static const char *exact_overlay(void) {
  static const char built[] = FAGEN_SOURCE_DIR "/tests/numeric/exact";
  return access(built, R_OK) ? "tests/numeric/exact" : built;
}

static int begin(void **state) {
  int code = support_begin(state);
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CUDA;
  options.template_dir = exact_overlay();
  expect_ok(fa_context_create(&context, &options));
  return code;
}

static int end(void **state) {
  fa_context_destroy(context);
  return support_end(state);
}

static double with_scaled_q(const void *with, trial_tensor tensor, const int64_t at[4]) {
  static const uint64_t seed = 7;
  return dense_normal(&seed, tensor, at) * (tensor == TRIAL_Q ? *(const double *)with : 1);
}

/* Forward and backward, by softcap or by exact_softcap. */
static void run_by(trial_result *out, const char *dtype, const char *name, double cap,
                   double scale) {
  char words[96], param[48];
  snprintf(words, sizeof words, "bwd cpu %s d128 causal %s", dtype, name);
  snprintf(param, sizeof param, "%s.cap", name);
  const cli_param given = {param, cap};
  trial_options options = trial_of(words, 1, 2, 384, 384);
  options.overlay = exact_overlay();
  options.sizes.params = &given;
  options.sizes.num_params = 1;
  options.fill = with_scaled_q;
  options.fill_with = &scale;
  run_trial_on(out, context, &options);
}

static void assert_close(const char *dtype, double cap, double scale) {
  trial_result fast, exact;
  run_by(&fast, dtype, "softcap", cap, scale);
  run_by(&exact, dtype, "exact_softcap", cap, scale);
  for (int i = 0; i < fast.num_outputs; ++i) {
    const trial_output *output = &fast.outputs[i];
    double of_exact = output_of(&exact, output->tensor)->error, ratio = output->error / of_exact;
    printf("%s, cap %2.0f, q x %.0f: error of %-3s fast %.3e, exact %.3e, ratio %.3f\n", dtype, cap,
           scale, output->name, output->error, of_exact, ratio);
    if (output->tensor != TRIAL_LSE && !(ratio <= most))
      fail_msg("the fast form's error of %s is %.2f of the exact form's; limit %.1f", output->name,
               ratio, most);
  }
  trial_free(&fast);
  trial_free(&exact);
}

static void assert_dtype_close(const char *dtype) {
  static const double caps[] = {5, 30}, scales[] = {1, 8};
  for (size_t c = 0; c < COUNT_OF(caps); ++c)
    for (size_t i = 0; i < COUNT_OF(scales); ++i) assert_close(dtype, caps[c], scales[i]);
}

static void softcap_is_as_precise_as_its_exact_form_in_bf16(void **state) {
  (void)state;
  assert_dtype_close("bf16");
}

static void softcap_is_as_precise_as_its_exact_form_in_f16(void **state) {
  (void)state;
  assert_dtype_close("f16");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softcap_is_as_precise_as_its_exact_form_in_bf16),
      cmocka_unit_test(softcap_is_as_precise_as_its_exact_form_in_f16),
  };
  if (on_gpu()) return cmocka_run_group_tests(tests, begin, end);
  printf("SKIP test_fast_forms: cpu has no fast forms; FAGEN_TEST_TARGET names no GPU target\n");
  return 77;
}
