/* test_determinism.c: the same bits for any number of threads, in every run, and in any batch. */
#include "support.h"

#include <stdio.h>

static const char *const cases[] = {"bwd cpu f32 d64 gqa2 causal det", "bwd cpu f32 d64 gqa2",
                                    "bwd cpu bf16 d64 gqa2 causal", "bwd cpu bf16 d72 v40 gqa3 det",
                                    "bwd cpu f16 d128 gqa2 det"};

static fa_context *context_of(int threads) {
  fa_context *context = NULL;
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CPU;
  options.threads = threads;
  options.template_dir = support_overlay;
  assert_status(fa_context_create(&context, &options), FA_OK);
  return context;
}

static void the_number_of_threads_changes_no_bit(void **state) {
  static const int threads[] = {1, 2, 3, 7};
  fa_context *contexts[COUNT_OF(threads)];
  (void)state;
  for (size_t n = 0; n < COUNT_OF(threads); ++n) contexts[n] = context_of(threads[n]);
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    trial_options options = trial_of(cases[i], 2, 6, 300, 260);
    trial_result results[COUNT_OF(threads)];
    for (size_t n = 0; n < COUNT_OF(threads); ++n) {
      run_trial_on(&results[n], contexts[n], &options);
      assert_result_right(&options, &results[n]);
      assert_same_bits(&results[n], &results[0]);
    }
    for (size_t n = 0; n < COUNT_OF(threads); ++n) trial_free(&results[n]);
  }
  for (size_t n = 0; n < COUNT_OF(threads); ++n) fa_context_destroy(contexts[n]);
}

static void every_run_gives_the_same_bits(void **state) {
  fa_context *context = context_of(3);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    trial_options options = trial_of(cases[i], 1, 6, 200, 200);
    trial_result first, again;
    run_trial_on(&first, context, &options);
    for (int run = 0; run < 5; ++run) {
      run_trial_on(&again, context, &options);
      assert_same_bits(&again, &first);
      trial_free(&again);
    }
    trial_free(&first);
  }
  fa_context_destroy(context);
}

/* Batch entry 0 holds what entry `with` of the larger batch holds. */
static double shifted(const void *with, trial_tensor tensor, const int64_t at[4]) {
  const int64_t moved[4] = {at[0] + *(const int64_t *)with, at[1], at[2], at[3]};
  static const int64_t factors[4] = {3, 5, 7, 11};
  int64_t sum = 13 * (int64_t)tensor + moved[0] * moved[1];
  for (int axis = 0; axis < 4; ++axis) sum += factors[axis] * moved[axis];
  return (double)(sum * sum % 31 - 15) / 16;
}

static void assert_entry_same(const trial_output *many, int64_t entry, const trial_output *one) {
  const int64_t *extent = one->extent;
  assert_int_equal(many->tensor, one->tensor);
  for (int64_t i = 0; i < extent[1]; ++i)
    for (int64_t h = 0; h < extent[2]; ++h)
      for (int64_t c = 0; c < extent[3]; ++c)
        assert_near(trial_tensor_name(one->tensor), many->got[trial_index(many, entry, i, h, c)],
                    one->got[trial_index(one, 0, i, h, c)], 0);
}

static void an_entry_is_the_same_alone_and_in_any_batch(void **state) {
  static const int64_t none = 0;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    trial_options many = trial_of(cases[i], 5, 6, 140, 150);
    trial_options one = trial_of(cases[i], 1, 6, 140, 150);
    trial_result together;
    many.fill = one.fill = shifted;
    many.fill_with = &none;
    run_trial(&together, &many);
    for (int64_t entry = 0; entry < 5; entry += 2) {
      trial_result alone;
      one.fill_with = &entry;
      run_trial(&alone, &one);
      for (int n = 0; n < alone.num_outputs; ++n)
        assert_entry_same(&together.outputs[n], entry, &alone.outputs[n]);
      trial_free(&alone);
    }
    trial_free(&together);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_number_of_threads_changes_no_bit),
      cmocka_unit_test(every_run_gives_the_same_bits),
      cmocka_unit_test(an_entry_is_the_same_alone_and_in_any_batch),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
