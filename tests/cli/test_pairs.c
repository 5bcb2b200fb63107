/* test_pairs.c: the closed forms for visible pairs agree with a count of the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/cli/pairs.h"

enum { TILE_ROWS = 3, TILE_KEYS = 4 };

static visible_pairs pairs_of(int causal, const char *variants, int64_t q, int64_t k,
                              const char *keep) {
  fa_spec spec = FA_SPEC_INIT;
  spec.causal = causal;
  strcpy(spec.variants, variants);
  cli_sizes sizes = {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = q, .seqlen_k = k};
  visible_pairs pairs;
  drawn_params drawn = {.count = 0};
  pairs_mask mask = {keep, &drawn, TILE_ROWS, TILE_KEYS};
  fa_status status = pairs_count(&pairs, &spec, &sizes, keep ? &mask : NULL);
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

/* The tiles of a mask of that reach by their definition. */
static void expect_tiles(const visible_pairs *got, int64_t q, int64_t k, int64_t reach,
                         const char *what) {
  int64_t empty = 0, full = 0, mixed = 0;
  for (int64_t row = 0; row < q; row += TILE_ROWS)
    for (int64_t key = 0; key < k; key += TILE_KEYS) {
      int64_t visible = 0, all = 0;
      for (int64_t i = row; i < q && i < row + TILE_ROWS; ++i)
        for (int64_t j = key; j < k && j < key + TILE_KEYS; ++j, ++all)
          visible += j <= i + k - q + reach;
      empty += visible == 0;
      full += visible == all;
      mixed += visible != 0 && visible != all;
    }
  expect(got->empty, empty, q, k, what);
  expect(got->full, full, q, k, what);
  expect(got->mixed, mixed, q, k, what);
}

static void tiles_are_those_of_the_definition(void **state) {
  const int64_t all = 1000; /* further than any key */
  (void)state;
  for (int64_t q = 0; q < 14; ++q)
    for (int64_t k = 0; k < 14; ++k) {
      visible_pairs causal = pairs_of(1, "", q, k, "k q le"), none = pairs_of(0, "", q, k, "");
      visible_pairs band = pairs_of(0, "band", q, k, "k q sub 5 le");
      expect_tiles(&causal, q, k, 0, "tiles of causal");
      expect_tiles(&band, q, k, 5, "tiles of a band");
      expect_tiles(&none, q, k, all, "tiles without a mask");
    }
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
      cmocka_unit_test(tiles_are_those_of_the_definition),
      cmocka_unit_test(other_masks_are_counted_pair_by_pair),
      cmocka_unit_test(a_score_keeps_the_closed_form),
      cmocka_unit_test(what_cannot_be_counted_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
