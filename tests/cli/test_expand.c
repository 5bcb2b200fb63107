/* test_expand.c: arguments become specs, and words with commas become every combination, in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "runtime/cli/expand.h"

/* Expands the arguments, up to NULL, and compares with the wanted specs, up to NULL. */
static void expect_specs(const char *const *arguments, const char *const *wanted) {
  size_t count = 0;
  while (arguments[count]) ++count;
  expand_list list;
  fa_status status = expand_arguments(&list, (char *const *)arguments, count);
  if (status) fail_msg("%s: %s", fa_status_name(status), fa_error_message());
  size_t i = 0;
  for (; i < list.count && wanted[i]; ++i) assert_string_equal(list.specs[i], wanted[i]);
  if (i < list.count) fail_msg("a spec too many: '%s'", list.specs[i]);
  if (wanted[i]) fail_msg("a spec is missing: '%s'", wanted[i]);
  expand_free(&list);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Expects FA_INVALID, nothing in the list, and a message with `word` in it. */
static void expect_refused(const char *argument, const char *word) {
  char *const arguments[] = {(char *)argument};
  expand_list list = {(char **)&list, 7};
  fa_status status = expand_arguments(&list, arguments, 1);
  if (status != FA_INVALID) fail_msg("'%s' gave %s", argument, fa_status_name(status));
  if (!strstr(fa_error_message(), word))
    fail_msg("'%s': '%s' does not say '%s'", argument, fa_error_message(), word);
  assert_null(list.specs);
  assert_int_equal(list.count, 0);
}

static void bare_words_are_one_spec(void **state) {
  (void)state;
  expect_specs(LIST("fwd", "cpu", "f32", "d64"), LIST("fwd cpu f32 d64"));
}

static void an_argument_with_a_blank_is_a_spec_of_its_own(void **state) {
  (void)state;
  expect_specs(LIST("fwd f32 d64", "bwd f32 d64"), LIST("fwd f32 d64", "bwd f32 d64"));
  expect_specs(LIST("fwd", "f32", "d64", "bwd\tf32 d8", "pre", "f16", "d16"),
               LIST("fwd f32 d64", "bwd f32 d8", "pre f16 d16"));
}

static void runs_of_blanks_separate_words_once(void **state) {
  (void)state;
  expect_specs(LIST("  fwd \t\n f32   d64 "), LIST("fwd f32 d64"));
}

static void no_arguments_give_no_specs(void **state) {
  (void)state;
  const char *const none[] = {NULL};
  expect_specs(none, none);
}

static void the_last_word_changes_fastest(void **state) {
  (void)state;
  expect_specs(LIST("fwd,bwd f16,bf16 d64"),
               LIST("fwd f16 d64", "fwd bf16 d64", "bwd f16 d64", "bwd bf16 d64"));
}

static void digits_take_the_letters_of_the_first_alternative(void **state) {
  (void)state;
  expect_specs(LIST("d64,128,d256"), LIST("d64", "d128", "d256"));
  expect_specs(LIST("gqa2,4", "v8,16"), LIST("gqa2 v8", "gqa2 v16", "gqa4 v8", "gqa4 v16"));
  expect_specs(LIST("sm80,90,cpu"), LIST("sm80", "sm90", "cpu"));
  expect_specs(LIST("64,128"), LIST("64", "128"));
}

static void an_empty_alternative_is_refused_by_word(void **state) {
  (void)state;
  expect_refused("fwd d64,,128", "'d64,,128'");
  expect_refused("fwd ,d64 f32", "',d64'");
  expect_refused("fwd d64, f32", "'d64,'");
  expect_refused("fwd ,", "','");
}

static void too_many_words_are_refused(void **state) {
  (void)state;
  char words[2 * EXPAND_MAX_WORDS + 3];
  for (size_t i = 0; i < sizeof words; ++i) words[i] = i % 2 ? ' ' : 'a';
  words[sizeof words - 1] = '\0';
  expect_refused(words, "more than 64 words");
}

static void a_product_that_is_too_large_is_refused(void **state) {
  (void)state;
  expect_refused("0,1,2,3,4,5,6,7,8,9 0,1,2,3,4,5,6,7,8,9 0,1,2,3,4,5,6,7,8,9 "
                 "0,1,2,3,4,5,6,7,8,9 0,1",
                 "10000");
}

static void the_largest_product_is_expanded_whole(void **state) {
  (void)state;
  char *const arguments[] = {"0,1,2,3,4,5,6,7,8,9", "0,1,2,3,4,5,6,7,8,9", "0,1,2,3,4,5,6,7,8,9",
                             "0,1,2,3,4,5,6,7,8,9"};
  expand_list list;
  assert_int_equal(expand_arguments(&list, arguments, 4), FA_OK);
  assert_int_equal(list.count, EXPAND_MAX_SPECS);
  for (size_t i = 0; i < list.count; ++i) {
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%zu %zu %zu %zu", i / 1000, i / 100 % 10, i / 10 % 10, i % 10);
    assert_string_equal(list.specs[i], wanted);
  }
  expand_free(&list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bare_words_are_one_spec),
      cmocka_unit_test(an_argument_with_a_blank_is_a_spec_of_its_own),
      cmocka_unit_test(runs_of_blanks_separate_words_once),
      cmocka_unit_test(no_arguments_give_no_specs),
      cmocka_unit_test(the_last_word_changes_fastest),
      cmocka_unit_test(digits_take_the_letters_of_the_first_alternative),
      cmocka_unit_test(an_empty_alternative_is_refused_by_word),
      cmocka_unit_test(too_many_words_are_refused),
      cmocka_unit_test(a_product_that_is_too_large_is_refused),
      cmocka_unit_test(the_largest_product_is_expanded_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
