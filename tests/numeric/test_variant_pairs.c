/* test_variant_pairs.c: every variant there is beside every other one, forward and backward with
   the gradients by their parameters, against the oracle. As in test_variants.c, none is named. */
#include "support.h"
#include "variant_list.h"

#include "gen/render.h"
#include "gen/spec.h"
#include "runtime/cli/buffer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static listed_variant variants[VARIANTS_LISTED_MAX];
static size_t num_variants;
static unsigned number;       /* of the next case */
static unsigned without_sums; /* cases that nothing was to be compared in */

static int begin(void **state) {
  int code = support_begin(state);
  if (!on_gpu()) alarm(280); /* hundreds of kernels are built */
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

static int is_mask(const listed_variant *v) {
  return !v->scores && !v->sinks;
}

/* Both orders where both change the score; else one order is as good as the other. Two masks are
   left to test_counting, which is exact. */
static void each_pair_of_variants(void **state) {
  const size_t every = on_gpu() ? 7 : 1; /* of the pairs: a GPU's compiler takes its time */
  size_t pairs = 0;
  (void)state;
  for (size_t i = 0; i < num_variants; ++i)
    for (size_t j = i + 1; j < num_variants; ++j) {
      int both = variants[i].scores && variants[j].scores, swapped = (i + j) % 2;
      if (is_mask(&variants[i]) && is_mask(&variants[j])) continue;
      if (pairs++ % every) continue;
      assert_pair_right(&variants[swapped ? j : i], &variants[swapped ? i : j]);
      if (both) assert_pair_right(&variants[swapped ? i : j], &variants[swapped ? j : i]);
    }
  print_message("%zu variants, %zu pairs; %u without a finite sum\n", num_variants, pairs,
                without_sums);
  assert_true(without_sums * 50 < pairs);
}

/* ---- What a pair means ------------------------------------------------------------------- */

/* The postfix words of a spec. Yours: render_free. */
static void render_words(render_result *out, const char *words) {
  char text[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT, canonical = FA_SPEC_INIT;
  snprintf(text, sizeof text, "fwd cpu f32 d8 %.100s", words);
  expect_ok(fa_spec_parse(&spec, text));
  expect_ok(spec_canonicalise(&canonical, &spec));
  expect_ok(render_spec(out, &canonical, support_overlay()));
}

/* Appends `words` with the slots of its parameters `slots` higher, and `score` in place of each s.
   */
static void append_words(char *out, size_t room, const char *words, int slots, const char *score) {
  while (*words) {
    size_t length = strcspn(words, " "), used = strlen(out);
    int slot = -1;
    const char *gap = used ? " " : "";
    if (strchr("ptn", *words)) sscanf(words + 1, "%d", &slot);
    if (length == 1 && *words == 's')
      snprintf(out + used, room - used, "%s%s", gap, score);
    else if (slot >= 0)
      snprintf(out + used, room - used, "%s%c%d", gap, *words, slot + slots);
    else
      snprintf(out + used, room - used, "%s%.*s", gap, (int)length, words);
    words += length + (words[length] == ' ');
  }
}

/* The words of a and then b, as they are made of each alone: masks joined by `and`, b's score of
   a's. */
static void expect_words_of_pair(const char *a, const char *b) {
  static char keep[65536], score[65536];
  char words[96];
  render_result first, second, both;
  snprintf(words, sizeof words, "%.31s %.31s", a, b);
  render_words(&first, a);
  render_words(&second, b);
  render_words(&both, words);
  keep[0] = score[0] = '\0';
  append_words(keep, sizeof keep, first.keep, 0, "s");
  append_words(keep, sizeof keep, second.keep, first.params.count, "s");
  if (*first.keep && *second.keep) strcat(keep, " and");
  append_words(score, sizeof score, second.score, first.params.count,
               *first.score ? first.score : "s");
  if (!*second.score) strcpy(score, first.score);
  assert_int_equal(both.params.count, first.params.count + second.params.count);
  if (strcmp(both.keep, keep)) fail_msg("%s: mask '%s', wanted '%s'", words, both.keep, keep);
  if (strcmp(both.score, score)) fail_msg("%s: score '%s', wanted '%s'", words, both.score, score);
  render_free(&first);
  render_free(&second);
  render_free(&both);
}

/* The oracle takes the words of a pair from the generator: that they are put together in the order
   named is seen here. */
static void pairs_act_in_the_order_named(void **state) {
  (void)state;
  for (size_t i = 0; i < num_variants; ++i)
    for (size_t j = 0; j < num_variants; ++j) {
      int both_score = variants[i].scores && variants[j].scores;
      int next = j == i + 1; /* of the others some: what they mean does not depend on the order */
      if (i == j || (!both_score && !next) || (variants[i].sinks && variants[j].sinks)) continue;
      expect_words_of_pair(variants[i].name, variants[j].name);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_pair_of_variants),
                                     cmocka_unit_test(pairs_act_in_the_order_named)};
  return cmocka_run_group_tests(tests, begin, support_end);
}
