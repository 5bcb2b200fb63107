/* test_pairs.c: the closed forms for visible pairs agree with a count of the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/cli/pairs.h"

static visible_pairs pairs_of(int causal, const char *variants, int64_t q, int64_t k,
                              const char *keep) {
  fa_spec spec = FA_SPEC_INIT;
  spec.causal = causal;
  strcpy(spec.variants, variants);
  cli_sizes sizes = {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = q, .seqlen_k = k};
  visible_pairs pairs;
  fa_status status = pairs_count(&pairs, &spec, &sizes, keep);
  if (status) fail_msg("%s: %s", fa_status_name(status), fa_error_message());
  return pairs;
}

/* Query i sees key j when j <= i + seqlen_k - seqlen_q + reach. */
static int64_t counted(int64_t q, int64_t k, int64_t reach) {
  int64_t count = 0;
  for (int64_t i = 0; i < q; ++i)
    for (int64_t j = 0; j < k; ++j) count += j <= i + k - q + reach;
  return count;
}

static void expect(int64_t got, int64_t wanted, int64_t q, int64_t k, const char *what) {
  if (got != wanted)
    fail_msg("%s, seqlen %lld x %lld: %lld pairs, wanted %lld", what, (long long)q, (long long)k,
             (long long)got, (long long)wanted);
}

static void causal_is_the_count_of_its_definition(void **state) {
  (void)state;
  for (int64_t q = 0; q < 12; ++q)
    for (int64_t k = 0; k < 12; ++k) {
      expect(pairs_of(1, "", q, k, "k q le").count, counted(q, k, 0), q, k, "causal");
      expect(pairs_of(1, "", q, k, NULL).count, counted(q, k, 0), q, k, "causal, not rendered");
      expect(pairs_of(0, "", q, k, "").count, q * k, q, k, "no mask");
    }
}

static void other_masks_are_counted_pair_by_pair(void **state) {
  (void)state;
  for (int64_t q = 0; q < 12; ++q)
    for (int64_t k = 0; k < 12; ++k)
      expect(pairs_of(0, "band", q, k, "k q sub 5 le").count, counted(q, k, 5), q, k, "band");
}

static void a_score_keeps_the_closed_form(void **state) {
  (void)state;
  const int64_t q = (int64_t)1 << 20;
  visible_pairs pairs = pairs_of(1, "softcap", q, q, "k q le");
  assert_true(pairs.known);
  expect(pairs.count, q * (q + 1) / 2, q, q, "causal softcap");
}

static void what_cannot_be_counted_says_so(void **state) {
  (void)state;
  visible_pairs pairs = pairs_of(0, "band", 1 << 20, 1 << 20, "k q sub 5 le");
  assert_false(pairs.known);
  assert_non_null(strstr(pairs.how, "too many pairs"));
  pairs = pairs_of(1, "band", 10, 10, NULL);
  assert_false(pairs.known);
  assert_non_null(strstr(pairs.how, "nothing was rendered"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(causal_is_the_count_of_its_definition),
      cmocka_unit_test(other_masks_are_counted_pair_by_pair),
      cmocka_unit_test(a_score_keeps_the_closed_form),
      cmocka_unit_test(what_cannot_be_counted_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
