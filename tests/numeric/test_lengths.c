/* test_lengths.c: every length where a tile begins, ends or stays partly empty, all dtypes, forward
   and backward, all memory around the problem poisoned. */
#include "support.h"

#include <math.h>
#include <stdio.h>

#ifndef SEEDS
#define SEEDS 10
#endif

static const char *const dtypes[] = {"f32", "f16", "bf16"};

static void assert_lengths_right(const char *words, int64_t seqlen_q, int64_t seqlen_k) {
  for (size_t i = 0; i < COUNT_OF(dtypes); ++i)
    for (int causal = 0; causal < 2 && target_has(dtypes[i]); ++causal) {
      char all[FA_NAME_MAX];
      snprintf(all, sizeof all, "bwd cpu %s %s%s", dtypes[i], words, causal ? " causal" : "");
      trial_options options = trial_of(all, 2, 4, seqlen_q, seqlen_k);
      assert_trial_right(&options);
    }
}

static void equal_lengths_up_to_129(void **state) {
  static const int64_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(lengths); ++i)
    assert_lengths_right("d64 gqa2", lengths[i], lengths[i]);
}

static void thirteen_queries_on_eight_keys(void **state) {
  (void)state;
  assert_lengths_right("d64 gqa2", 13, 8);
  assert_lengths_right("d64 gqa2", 8, 13);
}

static void more_queries_than_keys(void **state) {
  static const int64_t lengths[][2] = {{2, 1}, {65, 1}, {65, 64}, {129, 63}, {200, 72}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(lengths); ++i)
    assert_lengths_right("d64 gqa2", lengths[i][0], lengths[i][1]);
}

static void more_keys_than_queries(void **state) {
  static const int64_t lengths[][2] = {{1, 2}, {1, 65}, {64, 65}, {63, 129}, {72, 200}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(lengths); ++i)
    assert_lengths_right("d64 gqa2", lengths[i][0], lengths[i][1]);
}

static void a_thousand_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(dtypes); ++i)
    for (int causal = 0; causal < 2 && target_has(dtypes[i]); ++causal) {
      char words[FA_NAME_MAX];
      snprintf(words, sizeof words, "bwd cpu %s d64%s", dtypes[i], causal ? " causal" : "");
      trial_options options = trial_of(words, 1, 1, 1000, 1000);
      assert_trial_right(&options);
    }
}

/* One head and hardly any keys: gradients that nearly cancel, LSE that may lie near 0. */
static void tiny_problems_of_many_seeds(void **state) {
  static const int64_t lengths[][2] = {{1, 1}, {1, 2}, {2, 2}, {3, 4}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(dtypes); ++i)
    for (size_t n = 0; n < COUNT_OF(lengths) && target_has(dtypes[i]); ++n)
      for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        char words[FA_NAME_MAX];
        snprintf(words, sizeof words, "bwd cpu %s d16 causal", dtypes[i]);
        trial_options options = trial_of(words, 1, 1, lengths[n][0], lengths[n][1]);
        options.sizes.seed = seed;
        assert_trial_right(&options);
      }
}

static void a_size_of_zero_is_success(void **state) {
  static const int64_t sizes[][4] = {
      {0, 2, 3, 5}, {2, 0, 3, 5}, {2, 2, 0, 5}, {2, 2, 3, 0}, {2, 2, 0, 0}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(sizes); ++i)
    for (int causal = 0; causal < 2; ++causal) {
      const char *words = causal ? "bwd cpu f32 d64 causal" : "bwd cpu f32 d64";
      trial_options options = trial_of(words, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
      assert_trial_right(&options);
    }
}

static void assert_all_got(const trial_result *result, trial_tensor tensor, double wanted) {
  const trial_output *output = output_of(result, tensor);
  int64_t count = output->extent[0] * output->extent[1] * output->extent[2] * output->extent[3];
  assert_true(count > 0);
  for (int64_t i = 0; i < count; ++i)
    assert_near(trial_tensor_name(tensor), output->got[i], wanted, 0);
}

static void without_keys_outputs_are_written_as_zero(void **state) {
  trial_options options = trial_of("bwd cpu bf16 d64", 2, 2, 70, 0);
  trial_result result;
  (void)state;
  run_trial(&result, &options);
  assert_all_got(&result, TRIAL_O, 0);
  assert_all_got(&result, TRIAL_LSE, -INFINITY);
  assert_all_got(&result, TRIAL_DQ, 0);
  trial_free(&result);
}

static void without_queries_key_gradients_are_written_as_zero(void **state) {
  trial_options options = trial_of("bwd cpu bf16 d64", 2, 2, 0, 70);
  trial_result result;
  (void)state;
  run_trial(&result, &options);
  assert_all_got(&result, TRIAL_DK, 0);
  assert_all_got(&result, TRIAL_DV, 0);
  trial_free(&result);
}

/* What memory held before a launch must change no bit of what comes out. */
static void poison_changes_no_bit(void **state) {
  static const int64_t lengths[][2] = {{1, 1}, {13, 8}, {65, 129}, {129, 65}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(dtypes); ++i)
    for (size_t n = 0; n < COUNT_OF(lengths) && target_has(dtypes[i]); ++n) {
      char words[FA_NAME_MAX];
      trial_result poisoned, clean;
      snprintf(words, sizeof words, "bwd cpu %s d40 gqa2 causal", dtypes[i]);
      trial_options options = trial_of(words, 2, 4, lengths[n][0], lengths[n][1]);
      run_trial(&poisoned, &options);
      options.poison = 0;
      run_trial(&clean, &options);
      assert_same_bits(&poisoned, &clean);
      trial_free(&poisoned);
      trial_free(&clean);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_lengths_up_to_129),
      cmocka_unit_test(thirteen_queries_on_eight_keys),
      cmocka_unit_test(more_queries_than_keys),
      cmocka_unit_test(more_keys_than_queries),
      cmocka_unit_test(a_thousand_rows),
      cmocka_unit_test(tiny_problems_of_many_seeds),
      cmocka_unit_test(a_size_of_zero_is_success),
      cmocka_unit_test(without_keys_outputs_are_written_as_zero),
      cmocka_unit_test(without_queries_key_gradients_are_written_as_zero),
      cmocka_unit_test(poison_changes_no_bit),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
