/* test_determinism.c: the same bits for any number of threads, in every run, and in any batch. */
#include "dense.h"

#include <string.h>

static const uint64_t seed = 6;

static const char *const cases[] = {"bwd cpu f32 d64 gqa2 causal det", "bwd cpu f32 d64 gqa2",
                                    "bwd cpu bf16 d64 gqa2 causal", "bwd cpu bf16 d72 v40 gqa3 det",
                                    "bwd cpu f16 d128 gqa2 det"};

static const trial_tensor outputs[] = {TRIAL_O, TRIAL_LSE, TRIAL_DQ, TRIAL_DK, TRIAL_DV};

static void create(dense *out, const char *words, int64_t batch) {
  dense_create(out, words, batch, 6, 300, 260);
  dense_fill_inputs(out, dense_normal, &seed);
}

static void assert_same_outputs(const dense *a, const dense *b) {
  for (size_t i = 0; i < COUNT_OF(outputs); ++i) assert_same_bytes(a, b, outputs[i]);
}

static void the_number_of_threads_changes_no_bit(void **state) {
  static const int threads[] = {1, 2, 3, 7};
  dense first[COUNT_OF(cases)];
  (void)state;
  cpu_only("it has no threads to choose");
  for (size_t n = 0; n < COUNT_OF(threads); ++n) {
    fa_context *context = support_new_context(threads[n]);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
      dense p;
      create(&p, cases[i], 2);
      dense_both(context, &p);
      if (n == 0)
        first[i] = p;
      else
        assert_same_outputs(&p, &first[i]), dense_free(&p);
    }
    fa_context_destroy(context);
  }
  for (size_t i = 0; i < COUNT_OF(cases); ++i) dense_free(&first[i]);
}

static void every_run_gives_the_same_bits(void **state) {
  fa_context *context = support_new_context(3);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    dense first, again;
    create(&first, cases[i], 1);
    create(&again, cases[i], 1);
    dense_both(context, &first);
    for (int run = 0; run < 10; ++run) {
      for (size_t n = 0; n < COUNT_OF(outputs); ++n)
        memset(again.memory[outputs[n]], run, dense_bytes(&again, outputs[n]));
      dense_both(context, &again);
      assert_same_outputs(&again, &first);
    }
    dense_free(&first);
    dense_free(&again);
  }
  fa_context_destroy(context);
}

/* Batch entry 0 holds what entry `with` of the larger batch holds. */
static double shifted(const void *with, trial_tensor tensor, const int64_t at[4]) {
  const int64_t moved[4] = {at[0] + *(const int64_t *)with, at[1], at[2], at[3]};
  return dense_normal(&seed, tensor, moved);
}

/* Batch entries are the outermost in every tensor, so that one is a stretch of memory. */
static void assert_entry_same(const dense *many, int64_t entry, const dense *one) {
  for (size_t i = 0; i < COUNT_OF(outputs); ++i) {
    size_t bytes = dense_bytes(one, outputs[i]);
    if (!is_repeatable(one->spec.target, one->spec.deterministic, one->spec.group > 1, outputs[i]))
      continue;
    const char *stretch = (const char *)many->memory[outputs[i]] + (size_t)entry * bytes;
    if (memcmp(stretch, one->memory[outputs[i]], bytes))
      fail_msg("%s of batch entry %d is not what it is alone", trial_tensor_name(outputs[i]),
               (int)entry);
  }
}

static void an_entry_is_the_same_alone_and_in_any_batch(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    dense many;
    create(&many, cases[i], 5);
    dense_both(support_context(), &many);
    for (int64_t entry = 0; entry < 5; entry += 2) {
      dense one;
      create(&one, cases[i], 1);
      dense_fill_inputs(&one, shifted, &entry);
      dense_both(support_context(), &one);
      assert_entry_same(&many, entry, &one);
      dense_free(&one);
    }
    dense_free(&many);
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
