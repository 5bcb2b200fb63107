/* test_variant_pairs.c: every variant there is beside every other one, forward and backward with the
   gradients by their parameters, against the oracle. As in test_variants.c, none is named. */
#include "support.h"
#include "variant_list.h"

#include "runtime/cli/buffer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static listed_variant variants[VARIANTS_LISTED_MAX];
static size_t num_variants;
static unsigned number;       /* of the next case */
static unsigned without_sums; /* cases that nothing was to be compared in */

static int begin(void **state) {
  int code = support_begin(state);
  num_variants = variant_list(variants);
  return code;
}

/* Two sinks cannot be joined: that is refused in words, which is what is tested then. */
static void assert_pair_refused(const listed_variant *a, const listed_variant *b,
                                const char *words) {
  const fa_kernel *kernel;
  trial_options options = variant_case(number++, "f32", words);
  assert_int_not_equal(fa_get_kernel(&kernel, support_context(), &options.spec), FA_OK);
  expect_words(words, fa_error_message(), a->name);
  expect_words(words, fa_error_message(), b->name);
}

/* Whether every row's sum is a number: one score's minus infinity may be another's infinity. */
static int has_sums(const trial_result *result) {
  const trial_output *lse = output_of(result, TRIAL_LSE);
  for (int64_t i = 0; i < view_count(lse->extent); ++i)
    if (isnan(lse->wanted[i]) || lse->wanted[i] == INFINITY) return 0;
  return 1;
}

static void assert_together_right(const char *words) {
  const char *dtype = number % 2 || on_gpu() ? "bf16" : "f32";
  trial_options options = variant_case(number++, dtype, words);
  trial_result result;
  if (!target_supports(&options.spec)) options.spec.pass = FA_FWD;
  run_trial(&result, &options);
  if (has_sums(&result))
    assert_result_right(&options, &result);
  else
    ++without_sums;
  trial_free(&result);
}

static void assert_pair_right(const listed_variant *a, const listed_variant *b) {
  char words[96];
  snprintf(words, sizeof words, "%s%.31s %.31s", number % 4 == 0 ? "causal " : "", a->name,
           b->name);
  if (a->sinks && b->sinks)
    assert_pair_refused(a, b, words);
  else
    assert_together_right(words);
}

/* Both orders where both change the score; else one order is as good as the other. */
static void each_pair_of_variants(void **state) {
  const size_t every = on_gpu() ? 7 : 1; /* of the pairs: a GPU's compiler takes its time */
  size_t pairs = 0;
  (void)state;
  for (size_t i = 0; i < num_variants; ++i)
    for (size_t j = i + 1; j < num_variants; ++j) {
      int both = variants[i].scores && variants[j].scores, swapped = (i + j) % 2;
      if (pairs++ % every) continue;
      assert_pair_right(&variants[swapped ? j : i], &variants[swapped ? i : j]);
      if (both) assert_pair_right(&variants[swapped ? i : j], &variants[swapped ? j : i]);
    }
  print_message("%zu variants, %zu pairs; %u without a finite sum\n", num_variants, pairs,
                without_sums);
  assert_true(without_sums * 50 < pairs);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_pair_of_variants)};
  return cmocka_run_group_tests(tests, begin, support_end);
}
