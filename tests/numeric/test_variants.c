/* test_variants.c: every variant there is, alone and with causal, forward and backward with the
   gradients by its parameters, against the oracle; and what its workspace grows with. No variant is
   named here: what is added to the templates or to the tests' overlay is tested by being there. */
#include "support.h"
#include "variant_list.h"

#include "runtime/cli/drawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static listed_variant variants[VARIANTS_LISTED_MAX];
static size_t num_variants;
static unsigned number; /* of the next case */

static int begin(void **state) {
  int code = support_begin(state);
  if (!on_gpu()) alarm(280); /* hundreds of kernels are built */
  num_variants = variant_list(variants);
  return code;
}

/* Cases in turns of the dtypes. A GPU's compiler takes seconds: there it is one dtype, and so one
   kernel for all cases. */
static void assert_words_right(const char *words, size_t cases, const char *gpu_dtype) {
  static const char *const dtypes[] = {"f32", "bf16", "f16"};
  for (size_t i = 0; i < cases; ++i) {
    const char *dtype = on_gpu() ? gpu_dtype : dtypes[i % COUNT_OF(dtypes)];
    trial_options options = variant_case(number++, dtype, words);
    assert_trial_right(&options);
  }
}

/* ---- Alone and with causal --------------------------------------------------------------- */

static void each_variant_alone(void **state) {
  (void)state;
  for (size_t i = 0; i < num_variants; ++i) assert_words_right(variants[i].name, 6, "bf16");
}

static void each_variant_with_causal(void **state) {
  (void)state;
  for (size_t i = 0; i < num_variants; ++i) {
    char words[96];
    snprintf(words, sizeof words, "causal det %.31s", variants[i].name);
    assert_words_right(words, 3, "f16");
  }
}

/* A gradient that is not asked for changes none of those that are. */
static void gradients_by_parameters_can_be_left_out(void **state) {
  (void)state;
  cpu_only("a matter of the plan, which is the same for all targets");
  for (size_t i = 0; i < num_variants; ++i) {
    trial_options options = variant_case(number++, "f32", variants[i].name);
    trial_result with, without;
    options.spec.deterministic = 1;
    run_trial(&with, &options);
    options.without_param_gradients = 1;
    run_trial(&without, &options);
    assert_result_right(&options, &without);
    for (int n = 0; n < without.num_outputs; ++n)
      if (!same_bits(&with, &without, without.outputs[n].tensor))
        fail_msg("%s: %s is not the same", variants[i].name, without.outputs[n].name);
    trial_free(&with);
    trial_free(&without);
  }
}

/* ---- Threads and sizes ------------------------------------------------------------------- */

static void any_number_of_threads_gives_the_same_bits(void **state) {
  (void)state;
  cpu_only("a GPU has no number of threads to set");
  fa_context *const contexts[] = {support_new_context(1), support_new_context(3)};
  for (size_t i = 0; i < num_variants; ++i) {
    trial_options options = variant_case(2 + 8 * (unsigned)i, "f32", variants[i].name);
    trial_result one, three;
    run_trial_on(&one, contexts[0], &options);
    run_trial_on(&three, contexts[1], &options);
    assert_same_bits(&one, &three);
    trial_free(&one);
    trial_free(&three);
  }
  for (size_t i = 0; i < COUNT_OF(contexts); ++i) fa_context_destroy(contexts[i]);
}

/* No rows, no keys, no sequences: outputs that have elements get what an empty sum gives. */
static void sizes_of_0_are_right(void **state) {
  (void)state;
  for (size_t i = 0; i < num_variants; ++i)
    for (int empty = 0; empty < 3; ++empty) {
      trial_options options = variant_case(number++, on_gpu() ? "bf16" : "f32", variants[i].name);
      if (empty == 0) options.sizes.seqlen_q = 0;
      if (empty == 1) options.sizes.seqlen_k = 0;
      if (empty == 2) options.sizes.batch = 0;
      assert_trial_right(&options);
    }
}

/* ---- Memory ------------------------------------------------------------------------------ */

/* Gives every table with a size this length. */
static void fix_lengths(cli_param out[PARAMS_MAX], char names[PARAMS_MAX][72], cli_sizes *sizes,
                        const param_list *declared) {
  const double length = 1025;
  sizes->params = out;
  for (int i = 0; i < declared->count; ++i) {
    const variant_param *param = &declared->items[i];
    if (!param->size[0]) continue;
    snprintf(names[i], sizeof names[i], "%s.%s", param->variant, param->size);
    out[sizes->num_params++] = (cli_param){names[i], length};
  }
}

/* Of backward, for batch 2 with 4 heads. */
static size_t workspace_of(const listed_variant *variant, int64_t seqlen) {
  char words[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT;
  cli_sizes sizes = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seed = 1};
  drawn_params drawn;
  fa_param params[PARAMS_MAX];
  fa_args args = FA_ARGS_INIT;
  const fa_kernel *kernel;
  char names[PARAMS_MAX][72];
  cli_param fixed[PARAMS_MAX];
  size_t bytes = 0;
  snprintf(words, sizeof words, "bwd cpu bf16 d64 gqa2 causal det %s", variant->name);
  target_words(words, words);
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(fa_get_kernel(&kernel, support_context(), &spec));
  sizes.seqlen_q = sizes.seqlen_k = seqlen;
  fix_lengths(fixed, names, &sizes, &variant->params);
  expect_ok(drawn_make(&drawn, &variant->params, &sizes));
  args.batch = sizes.batch;
  args.heads_q = sizes.heads_q;
  args.heads_kv = sizes.heads_kv;
  args.seqlen_q = args.seqlen_k = seqlen;
  args.params = params;
  args.num_params = drawn_as_arguments(params, &drawn);
  expect_ok(fa_workspace_size(&bytes, kernel, &args));
  drawn_free(&drawn);
  return bytes;
}

/* With tables of one length, twice the rows take at most twice the bytes, but for 256 that each
   part may be rounded up by. */
static void workspace_is_linear_in_the_sequence(void **state) {
  const size_t rounding = 16 * 256;
  (void)state;
  for (size_t i = 0; i < num_variants; ++i) {
    size_t before = workspace_of(&variants[i], 4096);
    for (int64_t seqlen = 8192; seqlen <= 131072; seqlen *= 2) {
      size_t now = workspace_of(&variants[i], seqlen);
      if (now > 2 * before + rounding)
        fail_msg("%s: %zu bytes at %d rows, %zu at half of them", variants[i].name, now,
                 (int)seqlen, before);
      before = now;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_variant_alone),
      cmocka_unit_test(each_variant_with_causal),
      cmocka_unit_test(gradients_by_parameters_can_be_left_out),
      cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
      cmocka_unit_test(sizes_of_0_are_right),
      cmocka_unit_test(workspace_is_linear_in_the_sequence),
  };
  return cmocka_run_group_tests(tests, begin, support_end);
}
