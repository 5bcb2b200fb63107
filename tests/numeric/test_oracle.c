/* test_oracle.c: masks and scores in postfix words, and what is refused. */
#include "support.h"

#include "runtime/cli/oracle.h"

#include <math.h>
#include <string.h>

static oracle *compiled(const char *keep, const char *score) {
  oracle *out = NULL;
  expect_ok(oracle_compile(&out, keep, score));
  return out;
}

static void empty_words_keep_everything_unchanged(void **state) {
  oracle *o = compiled("", "");
  double slope = 0;
  (void)state;
  assert_true(oracle_keep(o, -3, 1000));
  assert_near("score", oracle_score(o, 1.25, 4, 5, &slope), 1.25, 0);
  assert_near("derivative", slope, 1, 0);
  oracle_free(o);
}

static void masks_answer_as_the_same_c_expression(void **state) {
  oracle *band = compiled("k q le q k sub 3 lt and k 1 eq or", "");
  oracle *odd = compiled("k q ne k q neg 2.5e0 mul add -1 gt k 0 ge and and", "");
  (void)state;
  for (int64_t q = -8; q < 8; ++q)
    for (int64_t k = 0; k < 8; ++k) {
      assert_int_equal(oracle_keep(band, q, k), (k <= q && q - k < 3) || k == 1);
      assert_int_equal(oracle_keep(odd, q, k), k != q && (double)k - 2.5 * (double)q > -1);
    }
  oracle_free(band);
  oracle_free(odd);
}

static void derivatives_agree_with_differences(void **state) {
  static const char *const scores[] = {
      "s 2 mul",
      "s s mul s mul q add",
      "3 s sub k q sub 0.5 mul add",
      "s neg s mul s 0 gt mul",
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(scores); ++i) {
    oracle *o = compiled("", scores[i]);
    double slope, unused, h = 1e-5;
    for (double s = -2.25; s < 2.5; s += 0.5) {
      double above = oracle_score(o, s + h, 3, 7, &unused);
      double below = oracle_score(o, s - h, 3, 7, &unused);
      oracle_score(o, s, 3, 7, &slope);
      assert_near(scores[i], slope, (above - below) / (2 * h), 1e-8);
    }
    oracle_free(o);
  }
}

static void known_scores_have_known_values(void **state) {
  oracle *o = compiled("", "s 2 mul k q sub -0.5 mul add");
  double slope = 0;
  (void)state;
  assert_near("value", oracle_score(o, 1.5, 10, 4, &slope), 6, 0);
  assert_near("derivative", slope, 2, 0);
  oracle_free(o);
}

static void assert_refused(const char *keep, const char *score, const char *says) {
  oracle *out = NULL;
  expect_refused(oracle_compile(&out, keep, score), FA_INVALID, says);
  assert_null(out);
}

static void wrong_words_are_refused_by_name(void **state) {
  (void)state;
  assert_refused("k q lessthan", "", "'lessthan'");
  assert_refused("k q le and", "", "'and' takes 2 values, 1 on the stack");
  assert_refused("neg", "", "'neg' takes 1 values, 0 on the stack");
  assert_refused("k q", "", "leaves 2 values");
  assert_refused("k  q le", "", "''");
  assert_refused("k q le ", "", "''");
  assert_refused("k s le", "", "'s' in a mask");
  assert_refused("", "s 0x10 mul", "'0x10'");
  assert_refused("", "s nan mul", "'nan'");
  assert_refused("", "s 1e999 mul", "'1e999'");
  assert_refused("", "s 1.2.3 mul", "'1.2.3'");
}

static void a_stack_too_deep_is_refused(void **state) {
  char words[65 * 2] = "";
  (void)state;
  for (int i = 0; i < 64; ++i) strcat(words, "k ");
  strcat(words, "k");
  assert_refused(words, "", "at most 64");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_words_keep_everything_unchanged),
      cmocka_unit_test(masks_answer_as_the_same_c_expression),
      cmocka_unit_test(derivatives_agree_with_differences),
      cmocka_unit_test(known_scores_have_known_values),
      cmocka_unit_test(wrong_words_are_refused_by_name),
      cmocka_unit_test(a_stack_too_deep_is_refused),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
