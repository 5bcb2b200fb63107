/* test_seam.c: masks and scores that the library does not ship go through the same seam as causal,
   alone and together, forward and backward, on tiles that are empty, full and mixed. The oracle
   that decides is itself compared with the same mask and score in C. */
#include "support.h"

#include "gen/render.h"
#include "gen/spec.h"
#include "runtime/cli/oracle.h"

#include <stdio.h>

static const int64_t lengths[][2] = {{1, 1},   {13, 8},   {8, 13},   {64, 64},
                                     {65, 65}, {130, 70}, {70, 130}, {200, 200}};

static void assert_all_lengths_right(const char *variants) {
  static const char *const dtypes[] = {"f32", "bf16", "f16"};
  for (size_t n = 0; n < COUNT_OF(dtypes); ++n)
    for (size_t i = 0; i < COUNT_OF(lengths) && target_has(dtypes[n]); ++i) {
      char words[FA_NAME_MAX];
      snprintf(words, sizeof words, "bwd cpu %s d40 gqa2 %s", dtypes[n], variants);
      trial_options options = trial_of(words, 1, 4, lengths[i][0], lengths[i][1]);
      options.with_dlse = i % 2;
      assert_trial_right(&options);
    }
}

static void a_mask_alone(void **state) {
  (void)state;
  assert_all_lengths_right("ahead");
  assert_all_lengths_right("behind");
}

static void a_score_alone(void **state) {
  (void)state;
  assert_all_lengths_right("twice");
}

static void a_mask_with_causal(void **state) {
  (void)state;
  assert_all_lengths_right("causal ahead");
  assert_all_lengths_right("causal behind");
}

static void a_score_with_causal(void **state) {
  (void)state;
  assert_all_lengths_right("causal twice");
}

static void masks_and_score_together(void **state) {
  (void)state;
  assert_all_lengths_right("ahead twice");
  assert_all_lengths_right("ahead behind twice");
  assert_all_lengths_right("causal ahead behind twice");
}

static void a_mask_under_det(void **state) {
  (void)state;
  assert_all_lengths_right("det ahead behind");
}

/* ---- The oracle itself ------------------------------------------------------------------- */

static int sees_ahead(int64_t q, int64_t k) {
  return k - q <= 5;
}

static int sees_behind(int64_t q, int64_t k) {
  return k - q >= -64;
}

static int sees_causal(int64_t q, int64_t k) {
  return k <= q;
}

static int sees_all(int64_t q, int64_t k) {
  (void)q, (void)k;
  return 1;
}

static const cli_sizes rows_from_minus_100 = {.seqlen_q = 200, .seqlen_k = 100};

static void assert_oracle(const char *words, int (*first)(int64_t, int64_t),
                          int (*second)(int64_t, int64_t), double factor) {
  fa_spec spec = FA_SPEC_INIT, canonical = FA_SPEC_INIT;
  render_result rendered = {0};
  oracle *compiled = NULL;
  double slope = 0;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&canonical, &spec));
  expect_ok(render_spec(&rendered, &canonical, support_overlay()));
  cli_pair pair = {0};
  oracle_words postfix = {rendered.keep, rendered.score, ""};
  expect_ok(oracle_compile(&compiled, &postfix, &rows_from_minus_100, NULL, 0));
  for (; pair.row < 200; ++pair.row)
    for (pair.key = 0; pair.key < 100; ++pair.key) {
      int64_t q = pair.row - 100, k = pair.key;
      if (oracle_keep(compiled, &pair) != (first(q, k) && second(q, k)))
        fail_msg("%s: the mask '%s' is wrong at q %d, k %d", words, rendered.keep, (int)q, (int)k);
    }
  assert_near(rendered.score, oracle_score(compiled, &pair, 1.5, &slope), 1.5 * factor, 0);
  assert_near(rendered.score, slope, factor, 0);
  oracle_free(compiled);
  render_free(&rendered);
}

static void rendered_masks_and_scores_are_those_of_the_files(void **state) {
  (void)state;
  assert_oracle("fwd cpu f32 d64", sees_all, sees_all, 1);
  assert_oracle("fwd cpu f32 d64 causal", sees_causal, sees_all, 1);
  assert_oracle("fwd cpu f32 d64 ahead", sees_ahead, sees_all, 1);
  assert_oracle("fwd cpu f32 d64 ahead behind", sees_ahead, sees_behind, 1);
  assert_oracle("fwd cpu f32 d64 causal behind twice", sees_causal, sees_behind, 2);
  assert_oracle("bwd cpu bf16 d64 twice", sees_all, sees_all, 2);
}

/* A mask that reaches past the last key is no mask, and one that causal implies changes nothing. */
static void a_mask_that_hides_nothing_changes_no_value(void **state) {
  trial_options causal = trial_of("bwd cpu f32 d40 causal", 1, 2, 60, 60);
  trial_options both = trial_of("bwd cpu f32 d40 causal behind", 1, 2, 60, 60);
  trial_result a, b;
  (void)state;
  run_trial(&a, &causal);
  run_trial(&b, &both);
  for (int i = 0; i < a.num_outputs; ++i) {
    const trial_output *x = &a.outputs[i], *y = &b.outputs[i];
    for (int64_t n = 0; n < x->extent[0] * x->extent[1] * x->extent[2] * x->extent[3]; ++n)
      assert_near(trial_tensor_name(x->tensor), y->got[n], x->got[n], on_target(1e-6, 4e-3));
  }
  trial_free(&a);
  trial_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_mask_alone),
      cmocka_unit_test(a_score_alone),
      cmocka_unit_test(a_mask_with_causal),
      cmocka_unit_test(a_score_with_causal),
      cmocka_unit_test(masks_and_score_together),
      cmocka_unit_test(a_mask_under_det),
      cmocka_unit_test(rendered_masks_and_scores_are_those_of_the_files),
      cmocka_unit_test(a_mask_that_hides_nothing_changes_no_value),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
