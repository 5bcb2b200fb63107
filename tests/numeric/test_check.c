/* test_check.c: `fagen check` as a function: what it prints, and the exit code of each outcome. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "support.h"

#include "runtime/cli/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs the command and gives its exit code; printed receives what it wrote. */
static int check(const char *words, cli_sizes sizes, char *printed, size_t bytes) {
  char on_the_target[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT;
  FILE *out = tmpfile();
  assert_non_null(out);
  target_words(on_the_target, words);
  expect_ok(fa_spec_parse(&spec, on_the_target));
  int code = cli_check(&spec, &sizes, out);
  rewind(out);
  size_t length = fread(printed, 1, bytes - 1, out);
  printed[length] = '\0';
  fclose(out);
  return code;
}

static void expect_name(const char *printed, const char *name) {
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  char wanted[FA_NAME_MAX];
  expect_ok(fa_context_info_get(&info, support_context()));
  target_name(wanted, name, info.arch);
  expect_words("check", printed, wanted);
}

static const cli_sizes small = {
    .batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 70, .seqlen_k = 90, .seed = 7};

static void a_right_kernel_exits_0_and_prints_every_output(void **state) {
  char printed[4096];
  (void)state;
  assert_int_equal(check("bwd cpu bf16 d64 gqa2 causal", small, printed, sizeof printed), 0);
  expect_name(printed, "fa_bwd_cpu_bf16_d64_gqa2_causal: batch 1, heads 4, kv heads 2");
  expect_words("check", printed, "softmax_scale 0.125, seed 7|relative right|\nright\n");
  expect_words("check", printed, "\nO  |\nLSE  |\ndQ  |\ndK  |\ndV  ");
  assert_null(strstr(printed, "WRONG"));
}

static void the_seed_decides_the_inputs(void **state) {
  char first[4096], again[4096], other[4096];
  cli_sizes sizes = small;
  (void)state;
  check("fwd cpu f32 d64 gqa2", sizes, first, sizeof first);
  check("fwd cpu f32 d64 gqa2", sizes, again, sizeof again);
  sizes.seed = 8;
  check("fwd cpu f32 d64 gqa2", sizes, other, sizeof other);
  assert_string_equal(first, again);
  assert_string_not_equal(first, other);
}

static void sizes_that_are_none_exit_2(void **state) {
  char printed[4096];
  cli_sizes sizes = small;
  (void)state;
  sizes.seqlen_q = -1;
  assert_int_equal(check("fwd cpu f32 d64 gqa2", sizes, printed, sizeof printed), 2);
  expect_words("message", fa_error_message(), "seqlen_q: -1");
  sizes = small;
  sizes.heads_kv = 3;
  assert_int_equal(check("fwd cpu f32 d64 gqa2", sizes, printed, sizeof printed), 2);
  expect_words("message", fa_error_message(), "heads_q: 4");
  assert_string_equal(printed, "");
}

static void a_parameter_that_no_variant_has_exits_2(void **state) {
  const cli_param param = {"softcap.cap", 30};
  char printed[4096];
  cli_sizes sizes = small;
  (void)state;
  sizes.params = &param;
  sizes.num_params = 1;
  assert_int_equal(check("fwd cpu f32 d64 gqa2", sizes, printed, sizeof printed), 2);
  expect_words("message", fa_error_message(), "softcap.cap");
}

static void a_target_that_is_not_here_exits_3_with_the_reason(void **state) {
  char printed[4096];
  fa_context *context = NULL;
  fa_options options = FA_OPTIONS_INIT;
  (void)state;
  options.backend = FA_CUDA;
  if (fa_context_create(&context, &options) == FA_OK) {
    fa_context_destroy(context);
    print_message("skipped: this machine has a usable GPU\n");
    skip();
  }
  assert_int_equal(check("fwd sm90 bf16 d64 gqa2", small, printed, sizeof printed), 3);
  assert_string_equal(printed, "");
  assert_true(strlen(fa_error_message()) > 0);
}

static void a_variant_from_the_users_folder_is_checked(void **state) {
  char printed[4096];
  (void)state;
  setenv("FA_TEMPLATE_DIR", support_overlay(), 1);
  assert_int_equal(check("bwd cpu f32 d64 gqa2 ahead twice", small, printed, sizeof printed), 0);
  unsetenv("FA_TEMPLATE_DIR");
  expect_name(printed, "fa_bwd_cpu_f32_d64_gqa2_ahead_twice");
}

static void limits_are_those_that_are_documented(void **state) {
  (void)state;
  assert_near("f32 O", check_limit(FA_F32, TRIAL_O), 1e-5, 0);
  assert_near("f32 dQ", check_limit(FA_F32, TRIAL_DQ), 1e-5, 0);
  assert_near("bf16 O", check_limit(FA_BF16, TRIAL_O), 2.4e-3, 0);
  assert_near("bf16 dK", check_limit(FA_BF16, TRIAL_DK), 2.7e-3, 0);
  assert_near("f16 O", check_limit(FA_F16, TRIAL_O), 3.0e-4, 0);
  assert_near("f16 dV", check_limit(FA_F16, TRIAL_DV), 3.4e-4, 0);
  assert_near("bf16 LSE", check_limit(FA_BF16, TRIAL_LSE), 1e-6, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_right_kernel_exits_0_and_prints_every_output),
      cmocka_unit_test(the_seed_decides_the_inputs),
      cmocka_unit_test(sizes_that_are_none_exit_2),
      cmocka_unit_test(a_parameter_that_no_variant_has_exits_2),
      cmocka_unit_test(a_target_that_is_not_here_exits_3_with_the_reason),
      cmocka_unit_test(a_variant_from_the_users_folder_is_checked),
      cmocka_unit_test(limits_are_those_that_are_documented),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
