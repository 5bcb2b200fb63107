/* test_shapes.c: head dimensions, groups, softmax scales and memory layouts, forward and backward.
 */
#include "support.h"

#include <stdio.h>

static const char *const dtypes[] = {"f32", "f16", "bf16"};

/* Calls test("bwd cpu DTYPE words") for each dtype. */
static void each_dtype(const char *words, void (*test)(const char *words)) {
  for (size_t i = 0; i < COUNT_OF(dtypes); ++i) {
    char all[FA_NAME_MAX];
    snprintf(all, sizeof all, "bwd cpu %s %s", dtypes[i], words);
    if (target_has(dtypes[i])) test(all);
  }
}

static void two_heads_right(const char *words) {
  trial_options options = trial_of(words, 1, 2, 65, 77);
  assert_trial_right(&options);
}

static void every_head_dimension(void **state) {
  static const int dims[] = {8, 40, 64, 72, 80, 96, 128, 192, 256};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(dims); ++i) {
    char words[32];
    snprintf(words, sizeof words, "d%d", dims[i]);
    each_dtype(words, two_heads_right);
    snprintf(words, sizeof words, "d%d causal", dims[i]);
    each_dtype(words, two_heads_right);
  }
}

static void values_wider_or_narrower_than_keys(void **state) {
  static const int dims[][2] = {{64, 128}, {128, 64}, {192, 128}, {40, 72}, {8, 256}, {256, 8}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(dims); ++i) {
    char words[32];
    snprintf(words, sizeof words, "d%d v%d causal", dims[i][0], dims[i][1]);
    each_dtype(words, two_heads_right);
  }
}

/* The group is never the number of kv heads: a kernel that mixes them up cannot pass. */
static void groups_that_differ_from_the_kv_heads(void **state) {
  static const int64_t cases[][2] = {{1, 3}, {2, 3}, {3, 2}, {4, 3}, {8, 2}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i)
    for (size_t n = 0; n < COUNT_OF(dtypes); ++n) {
      if (!target_has(dtypes[n])) continue;
      char words[FA_NAME_MAX];
      snprintf(words, sizeof words, "bwd cpu %s d64 gqa%d causal", dtypes[n], (int)cases[i][0]);
      trial_options options = trial_of(words, 2, cases[i][0] * cases[i][1], 70, 90);
      assert_int_equal(options.sizes.heads_kv, cases[i][1]);
      assert_trial_right(&options);
    }
}

static void one_kv_head_for_all(void **state) {
  trial_options options = trial_of("bwd cpu bf16 d64 gqa5", 2, 5, 70, 90);
  (void)state;
  assert_trial_right(&options);
}

static void scales_right(const char *words) {
  static const float scales[] = {0.01f, 0.25f, 0.5f};
  for (size_t i = 0; i < COUNT_OF(scales); ++i) {
    trial_options options = trial_of(words, 1, 2, 65, 77);
    options.sizes.softmax_scale = scales[i];
    assert_trial_right(&options);
  }
}

static void softmax_scales_other_than_the_default(void **state) {
  (void)state;
  each_dtype("d64", scales_right);
}

/* The same values in other strides are the same problem, to the last bit. */
static void layouts_same(const char *words) {
  trial_result results[TRIAL_LAYOUTS];
  for (int layout = 0; layout < TRIAL_LAYOUTS; ++layout) {
    trial_options options = trial_of(words, 2, 6, 70, 90);
    options.layout = layout;
    run_trial(&results[layout], &options);
    assert_result_right(&options, &results[layout]);
    assert_same_bits(&results[layout], &results[0]);
  }
  for (int layout = 0; layout < TRIAL_LAYOUTS; ++layout) trial_free(&results[layout]);
}

static void layouts_give_the_same_bits(void **state) {
  (void)state;
  each_dtype("d72 gqa3 causal", layouts_same);
}

static void many_seeds_right(const char *words) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    trial_options options = trial_of(words, 1, 2, 40, 40);
    options.sizes.seed = seed;
    assert_trial_right(&options);
  }
}

static void twenty_seeds(void **state) {
  (void)state;
  each_dtype("d64 causal", many_seeds_right);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_head_dimension),
      cmocka_unit_test(values_wider_or_narrower_than_keys),
      cmocka_unit_test(groups_that_differ_from_the_kv_heads),
      cmocka_unit_test(one_kv_head_for_all),
      cmocka_unit_test(softmax_scales_other_than_the_default),
      cmocka_unit_test(layouts_give_the_same_bits),
      cmocka_unit_test(twenty_seeds),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
