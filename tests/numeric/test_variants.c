/* test_variants.c: every variant there is, alone, with causal and beside every other one, forward and
   backward with the gradients by its parameters, against the oracle. No variant is named here: what
   is added to the templates or to the tests' overlay is tested by being there. */
#include "support.h"
#include "variant_list.h"

#include "runtime/cli/drawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static listed_variant variants[VARIANTS_LISTED_MAX];
static size_t num_variants;

static int begin(void **state) {
  int code = support_begin(state);
  num_variants = variant_list(variants);
  return code;
}

/* ---- Cases ------------------------------------------------------------------------------- */

/* Lengths below, at and past the tiles, of one row and of one key, and more rows than keys. */
static const int64_t lengths[][2] = {{13, 8}, {65, 65}, {70, 130}, {130, 70}, {1, 97},
                                     {97, 1}, {8, 13},  {64, 64},  {150, 200}};
static const int dims[] = {8, 40, 72, 16, 24};

/* Numbers the cases: all that varies beside the variants is drawn from the number. */
static unsigned number;

/* "bwd cpu f32 d40 gqa2 WORDS" with the sizes, layout and seed of the next number. */
static trial_options next_case(const char *dtype, const char *words) {
  char spec[FA_NAME_MAX];
  const unsigned n = number++;
  const int64_t *length = lengths[n % COUNT_OF(lengths)];
  int group = 1 + (int)(n / 2 % 3);
  snprintf(spec, sizeof spec, "bwd cpu %s d%d gqa%d %s", dtype, dims[n / 3 % COUNT_OF(dims)], group,
           words);
  trial_options options = trial_of(spec, 1 + n / 4 % 2, 2 * group, length[0], length[1]);
  options.sizes.seed = 1 + n;
  options.with_dlse = n % 3 == 0;
  options.layout = n / 5 % TRIAL_LAYOUTS == TRIAL_PACKED ? TRIAL_BSHD : n / 5 % TRIAL_LAYOUTS;
  return options;
}

static void assert_case_right(const char *dtype, const char *words) {
  trial_options options = next_case(dtype, words);
  assert_trial_right(&options);
}

static const char *const dtypes[] = {"f32", "bf16", "f16"};

static void assert_words_right(const char *words, size_t cases) {
  for (size_t i = 0; i < cases; ++i) {
    const char *dtype = dtypes[i % COUNT_OF(dtypes)];
    if (target_has(dtype)) assert_case_right(dtype, words);
  }
}

/* On a GPU a kernel takes a second to compile: one case in each of the places below. */
static size_t cases_of(size_t on_cpu) {
  return on_gpu() ? 2 : on_cpu;
}

/* ---- Alone and with causal --------------------------------------------------------------- */

static void each_variant_alone(void **state) {
  (void)state;
  for (size_t i = 0; i < num_variants; ++i)
    assert_words_right(variants[i].name, cases_of(2 * COUNT_OF(lengths)));
}

static void each_variant_with_causal(void **state) {
  (void)state;
  for (size_t i = 0; i < num_variants; ++i) {
    char words[96];
    snprintf(words, sizeof words, "causal det %.31s", variants[i].name);
    assert_words_right(words, cases_of(COUNT_OF(lengths)));
  }
}

/* A gradient that is not asked for changes none of those that are. */
static void gradients_by_parameters_can_be_left_out(void **state) {
  (void)state;
  for (size_t i = 0; i < num_variants; ++i) {
    trial_options options = next_case("f32", variants[i].name);
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

/* ---- Pairs ------------------------------------------------------------------------------- */

/* Two sinks cannot be joined: that is refused in words, which is what is tested then. */
static void assert_pair_refused(const listed_variant *a, const listed_variant *b,
                                const char *words) {
  const fa_kernel *kernel;
  trial_options options = next_case("f32", words);
  assert_int_not_equal(fa_get_kernel(&kernel, support_context(), &options.spec), FA_OK);
  expect_words(words, fa_error_message(), a->name);
  expect_words(words, fa_error_message(), b->name);
}

static void assert_pair_right(const listed_variant *a, const listed_variant *b) {
  char words[96];
  snprintf(words, sizeof words, "%s%.31s %.31s", number % 4 == 0 ? "causal " : "", a->name,
           b->name);
  if (a->sinks && b->sinks)
    assert_pair_refused(a, b, words);
  else
    assert_case_right(number % 2 || on_gpu() ? "bf16" : "f32", words);
}

/* Both orders where both change the score; else one order is as good as the other. */
static void each_pair_of_variants(void **state) {
  const size_t every = on_gpu() ? 7 : 1; /* of the pairs: a GPU's compiler takes its time */
  size_t pairs = 0;
  (void)state;
  for (size_t i = 0; i < num_variants; ++i)
    for (size_t j = i + 1; j < num_variants; ++j) {
      int both = variants[i].scores && variants[j].scores, swapped = (i + j) % 2;
      if (pairs++ % every) continue;
      assert_pair_right(&variants[swapped ? j : i], &variants[swapped ? i : j]);
      if (both) assert_pair_right(&variants[swapped ? i : j], &variants[swapped ? j : i]);
    }
  print_message("%zu variants, %zu pairs\n", num_variants, pairs);
}

/* ---- Memory ------------------------------------------------------------------------------ */

/* Of backward, for batch 2 with 4 heads. */
static size_t workspace_of(const listed_variant *variant, int64_t seqlen) {
  char words[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT;
  cli_sizes sizes = {
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = seqlen, .seqlen_k = seqlen};
  drawn_params drawn;
  fa_param params[PARAMS_MAX];
  fa_args args = FA_ARGS_INIT;
  const fa_kernel *kernel;
  size_t bytes = 0;
  snprintf(words, sizeof words, "bwd cpu bf16 d64 gqa2 causal det %s", variant->name);
  target_words(words, words);
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(fa_get_kernel(&kernel, support_context(), &spec));
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

/* Twice the rows take at most twice the bytes, but for 256 that each part may be rounded up by. */
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
      cmocka_unit_test(each_pair_of_variants),
      cmocka_unit_test(workspace_is_linear_in_the_sequence),
  };
  return cmocka_run_group_tests(tests, begin, support_end);
}
