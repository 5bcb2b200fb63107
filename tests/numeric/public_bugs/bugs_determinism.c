/* bugs_determinism.c: results of other attention kernels that changed from run to run, with the
   batch, or because an option was lost on the way. tests/public_bugs.md has the reports. */
#include "../dense.h"

#include <string.h>

static const uint64_t seed = 29;
static const trial_tensor gradients[] = {TRIAL_DQ, TRIAL_DK, TRIAL_DV};

/* The same problem `runs` times, each time over other rubbish: the same bytes. */
static void assert_stable(const char *words, int64_t batch, int64_t heads, int64_t seqlen,
                          int runs) {
  dense first, again;
  dense_create(&first, words, batch, heads, seqlen, seqlen);
  dense_create(&again, words, batch, heads, seqlen, seqlen);
  dense_fill_inputs(&first, dense_normal, &seed);
  dense_fill_inputs(&again, dense_normal, &seed);
  dense_both(support_context(), &first);
  for (int run = 1; run < runs; ++run) {
    for (int i = TRIAL_O; i <= TRIAL_DV; ++i) memset(again.memory[i], run, dense_bytes(&again, i));
    dense_both(support_context(), &again);
    for (int i = TRIAL_O; i <= TRIAL_DV; ++i) assert_same_bytes(&first, &again, i);
  }
  dense_free(&first);
  dense_free(&again);
}

static void b09_deterministic_gradients_in_many_runs(void **state) {
  (void)state;
  assert_stable("bwd cpu f16 d64 det", 2, 4, 256, 30);
}

static void b68_deterministic_with_a_window(void **state) {
  trial_options options = trial_of("bwd cpu bf16 d64 gqa2 causal det behind", 1, 4, 300, 300);
  (void)state;
  assert_trial_right(&options);
  assert_stable("bwd cpu bf16 d64 gqa2 causal det behind", 1, 4, 300, 10);
}

/* On cpu the order of dQ's sum is fixed without `det` as well. */
static void b69_default_gradients_in_many_runs(void **state) {
  (void)state;
  assert_stable("bwd cpu bf16 d64", 1, 4, 300, 20);
}

static void b74_deterministic_gradients_of_a_group(void **state) {
  (void)state;
  assert_stable("bwd cpu bf16 d128 gqa8 det", 1, 16, 130, 20);
  assert_stable("bwd cpu bf16 d64 gqa8 causal det", 1, 16, 130, 20);
}

/* ---- Workspace --------------------------------------------------------------------------- */

static size_t workspace_of(const char *words, int64_t heads, int64_t seqlen) {
  const fa_kernel *kernel;
  fa_args args = FA_ARGS_INIT;
  size_t bytes = 0;
  trial_options options = trial_of(words, 1, heads, seqlen, seqlen);
  expect_ok(fa_get_kernel(&kernel, support_context(), &options.spec));
  args.batch = 1;
  args.heads_q = heads;
  args.heads_kv = options.sizes.heads_kv;
  args.seqlen_q = args.seqlen_k = seqlen;
  expect_ok(fa_workspace_size(&bytes, kernel, &args));
  return bytes;
}

static void b70_workspace_is_linear_in_the_length(void **state) {
  static const char *const words[] = {"bwd cpu bf16 d64", "bwd cpu bf16 d64 det",
                                      "bwd cpu bf16 d64 gqa4 causal det"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i)
    for (int64_t seqlen = 1024; seqlen <= INT64_C(1) << 26; seqlen *= 2) {
      size_t once = workspace_of(words[i], 16, seqlen),
             twice = workspace_of(words[i], 16, 2 * seqlen);
      if (twice < once || (double)twice > 2.1 * (double)once)
        fail_msg("%s: %zu bytes at %d, %zu at twice that", words[i], once, (int)seqlen, twice);
    }
}

/* Eight times the query heads on the same keys may cost D and dQ eight times, and one f32 copy of dK
   and dV where blocks share a group: by kv head, not by query head. */
static void b102_workspace_does_not_expand_keys_to_query_heads(void **state) {
  size_t one = workspace_of("bwd cpu bf16 d64", 2, 4096);
  size_t eight = workspace_of("bwd cpu bf16 d64 gqa8", 16, 4096);
  (void)state;
  size_t rows = 4096 * 14, keys = 4096 * 2; /* query rows more; keys of all kv heads */
  if (eight > one + rows * (64 + 1) * 4 + keys * (64 + 64) * 4 + 4096)
    fail_msg("%zu bytes for a group of 1, %zu for a group of 8", one, eight);
}

/* ---- Batch ------------------------------------------------------------------------------- */

/* Batch entry 0 holds what entry *with of a larger batch holds. */
static double shifted(const void *with, trial_tensor tensor, const int64_t at[4]) {
  const int64_t moved[4] = {at[0] + *(const int64_t *)with, at[1], at[2], at[3]};
  return dense_normal(&seed, tensor, moved);
}

static void b71_one_sequence_among_63_others(void **state) {
  const int64_t entry = 41;
  dense many, one;
  (void)state;
  dense_create(&many, "bwd cpu bf16 d64 gqa2 det", 64, 2, 70, 70);
  dense_create(&one, "bwd cpu bf16 d64 gqa2 det", 1, 2, 70, 70);
  dense_fill_inputs(&many, dense_normal, &seed);
  dense_fill_inputs(&one, shifted, &entry);
  dense_both(support_context(), &many);
  dense_both(support_context(), &one);
  for (int i = TRIAL_O; i <= TRIAL_DV; ++i) {
    size_t bytes = dense_bytes(&one, i);
    const char *part = (const char *)many.memory[i] + (size_t)entry * bytes;
    if (memcmp(part, one.memory[i], bytes)) fail_msg("%s differs", trial_tensor_name(i));
  }
  dense_free(&many);
  dense_free(&one);
}

/* ---- The flag ---------------------------------------------------------------------------- */

static void assert_named(const char *words, const char *name) {
  const fa_kernel *kernel;
  fa_context_info device = FA_CONTEXT_INFO_INIT;
  fa_kernel_info info = FA_KERNEL_INFO_INIT;
  char printed[FA_NAME_MAX], wanted[FA_NAME_MAX];
  fa_spec spec = trial_of(words, 1, 4, 5, 5).spec;
  target_words(wanted, name);
  expect_ok(fa_spec_name(printed, sizeof printed, &spec));
  assert_string_equal(printed, wanted);
  expect_ok(fa_context_info_get(&device, support_context()));
  target_name(wanted, name, device.arch);
  expect_ok(fa_get_kernel(&kernel, support_context(), &spec));
  expect_ok(fa_kernel_info_get(&info, kernel));
  assert_string_equal(info.name, wanted);
  expect_words("source", fa_kernel_source(kernel), wanted);
}

/* The flag is part of spec, name and kernel, and fa_launch refuses arguments that disagree. */
static void b72_the_flag_reaches_the_kernel(void **state) {
  const fa_kernel *kernel;
  size_t bytes;
  dense p;
  (void)state;
  assert_named("bwd cpu bf16 d64 det", "fa_bwd_cpu_bf16_d64_det");
  assert_named("det causal bwd gqa4 d64 cpu bf16", "fa_bwd_cpu_bf16_d64_gqa4_causal_det");
  assert_named("bwd cpu bf16 d64", "fa_bwd_cpu_bf16_d64");
  dense_create(&p, "bwd cpu bf16 d64", 1, 2, 5, 5);
  expect_ok(fa_get_kernel(&kernel, support_context(), &p.spec));
  p.args.deterministic = 1;
  expect_refused(fa_workspace_size(&bytes, kernel, &p.args), FA_INVALID, "deterministic");
  dense_free(&p);
}

/* The one-call interface takes the flag from the arguments: the gradients are those of the spec. */
static void b72_the_flag_of_the_arguments_counts(void **state) {
  dense by_spec, by_args;
  (void)state;
  dense_create(&by_spec, "bwd cpu bf16 d64 gqa2 det", 1, 4, 130, 130);
  dense_create(&by_args, "bwd cpu bf16 d64 gqa2", 1, 4, 130, 130);
  dense_fill_inputs(&by_spec, dense_normal, &seed);
  dense_fill_inputs(&by_args, dense_normal, &seed);
  by_args.args.deterministic = 1;
  dense_both(support_context(), &by_spec);
  dense_both(support_context(), &by_args);
  for (size_t i = 0; i < COUNT_OF(gradients); ++i)
    assert_same_bytes(&by_spec, &by_args, gradients[i]);
  dense_free(&by_spec);
  dense_free(&by_args);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(b09_deterministic_gradients_in_many_runs),
      cmocka_unit_test(b68_deterministic_with_a_window),
      cmocka_unit_test(b69_default_gradients_in_many_runs),
      cmocka_unit_test(b70_workspace_is_linear_in_the_length),
      cmocka_unit_test(b71_one_sequence_among_63_others),
      cmocka_unit_test(b72_the_flag_reaches_the_kernel),
      cmocka_unit_test(b72_the_flag_of_the_arguments_counts),
      cmocka_unit_test(b74_deterministic_gradients_of_a_group),
      cmocka_unit_test(b102_workspace_does_not_expand_keys_to_query_heads),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
