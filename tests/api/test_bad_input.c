/* test_bad_input.c: numbers, names, pointers and structs that are wrong, through the public API.
   Each case gets its status and a sentence with the field and the value, and touches no memory. */
#include "calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void good_arguments_are_accepted(void **state) {
  (void)state;
  for (int call = 1; call <= SIZE_BWD; call *= 2) {
    fa_args args = good_args();
    expect_ok(make_call(call, &args));
  }
}

/* ---- Numbers -------------------------------------------------------------------------------- */

typedef struct change {
  size_t offset, bytes; /* of the field */
  int64_t value;
  int calls;
  fa_status status;
  const char *words;
} change;

#define SET(field, value) offsetof(fa_args, field), sizeof(((fa_args *)0)->field), value

static void apply(fa_args *args, const change *c) {
  int32_t narrow = (int32_t)c->value;
  memcpy((char *)args + c->offset, c->bytes == 4 ? (void *)&narrow : (void *)&c->value, c->bytes);
}

static void assert_changes_are_refused(const change *changes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    fa_args args = good_args();
    apply(&args, &changes[i]);
    assert_all_refuse(changes[i].calls, &args, changes[i].status, changes[i].words);
  }
}

static void sizes_are_checked(void **state) {
  static const change changes[] = {
      {SET(batch, -1), ALL, FA_INVALID, "batch: -1|0 to 2147483647"},
      {SET(batch, INT64_MIN), ALL, FA_INVALID, "batch: -9223372036854775808|0 to 2147483647"},
      {SET(batch, 2147483648), ALL, FA_INVALID, "batch: 2147483648|0 to 2147483647"},
      {SET(batch, INT64_MAX), ALL, FA_INVALID, "batch: 9223372036854775807|0 to 2147483647"},
      {SET(seqlen_q, -1), ALL, FA_INVALID, "seqlen_q: -1|0 to 2147483647"},
      {SET(seqlen_q, 2147483648), ALL, FA_INVALID, "seqlen_q: 2147483648|0 to 2147483647"},
      {SET(seqlen_k, -7), ALL, FA_INVALID, "seqlen_k: -7|0 to 2147483647"},
      {SET(seqlen_k, INT64_MAX), ALL, FA_INVALID, "seqlen_k: 9223372036854775807|0 to"},
      {SET(heads_q, 5), ALL, FA_INVALID, "heads_q: 5|heads_kv"},
      {SET(heads_q, 1), ALL, FA_INVALID, "heads_q: 1|heads_kv"},
      {SET(heads_q, -4), ALL, FA_INVALID, "heads_q: -4|"},
      {SET(heads_q, INT64_MAX), ALL, FA_INVALID, "heads_q: 9223372036854775807|"},
      {SET(heads_q, INT64_MAX - 1), ALL, FA_INVALID, "heads_q: 9223372036854775806|2147483647"},
      {SET(heads_q, 6), WITH_KERNEL, FA_INVALID, "heads_q: 6|heads_kv * 2 = 4"},
      {SET(heads_q, 0), WITH_KERNEL, FA_INVALID, "heads_q: 0|heads_kv * 2 = 4"},
      {SET(heads_kv, 3), ALL, FA_INVALID, "heads_q: 4|heads_kv"},
      {SET(heads_kv, 0), ALL, FA_INVALID, "heads_q: 4|heads_kv"},
      {SET(heads_kv, -2), ALL, FA_INVALID, "heads_|heads_kv|-2"},
  };
  (void)state;
  assert_changes_are_refused(changes, COUNT_OF(changes));
}

static void sizes_together_are_checked(void **state) {
  fa_args args = good_args();
  (void)state;
  args.batch = args.seqlen_q = INT32_MAX;
  assert_all_refuse(ALL, &args, FA_INVALID, "batch * heads_q * seqlen: 1.84e+19|at most 3.9e15");
  args.seqlen_q = 1;
  args.seqlen_k = INT32_MAX;
  assert_all_refuse(ALL, &args, FA_INVALID, "batch * heads_q * seqlen: 1.84e+19|at most 3.9e15");
}

static void what_selects_the_kernel_is_checked(void **state) {
  static const change changes[] = {
      {SET(dtype, 0), ONE_CALL, FA_INVALID, "dtype: 0|f16, bf16, f32"},
      {SET(dtype, 4), ONE_CALL, FA_INVALID, "dtype: 4|f16, bf16, f32"},
      {SET(dim_qk, 0), ONE_CALL, FA_INVALID, "dim_qk: 0|8 to 256"},
      {SET(dim_qk, 4), ONE_CALL, FA_INVALID, "dim_qk: 4|8 to 256"},
      {SET(dim_qk, 257), ONE_CALL, FA_INVALID, "dim_qk: 257|8 to 256"},
      {SET(dim_qk, 264), ONE_CALL, FA_INVALID, "dim_qk: 264|8 to 256"},
      {SET(dim_qk, -16), ONE_CALL, FA_INVALID, "dim_qk: -16|8 to 256"},
      {SET(dim_v, 4), ONE_CALL, FA_INVALID, "dim_v: 4|8 to 256"},
      {SET(dim_v, 264), ONE_CALL, FA_INVALID, "dim_v: 264|8 to 256"},
      {SET(target, 9), ONE_CALL, FA_INVALID, "target: 9|_CPU"},
      {SET(target, -1), ONE_CALL, FA_INVALID, "target: -1|_CPU"},
      {SET(target, FA_TARGET_SM80), ONE_CALL, FA_INVALID, "dtype: f32|sm80"},
      {SET(causal, 2), ONE_CALL, FA_INVALID, "causal: 2|0 or 1"},
      {SET(deterministic, -1), ONE_CALL, FA_INVALID, "deterministic: -1|0 or 1"},
      {SET(dtype, FA_BF16), WITH_KERNEL, FA_INVALID, "dtype: 2|has 3"},
      {SET(dtype, 77), WITH_KERNEL, FA_INVALID, "dtype: 77|has 3"},
      {SET(dim_qk, 64), WITH_KERNEL, FA_INVALID, "dim_qk: 64|has 16"},
      {SET(dim_v, 16), WITH_KERNEL, FA_INVALID, "dim_v: 16|has 8"},
      {SET(target, FA_TARGET_SM90), WITH_KERNEL, FA_INVALID, "target: 3|has 1"},
      {SET(causal, 1), WITH_KERNEL & ~(LAUNCH_PRE | SIZE_PRE), FA_INVALID, "causal: 1|has 0"},
      {SET(deterministic, 1), LAUNCH_BWD | SIZE_BWD, FA_INVALID, "deterministic: 1|has 0"},
  };
  (void)state;
  assert_changes_are_refused(changes, COUNT_OF(changes));
}

static void targets_that_cannot_run_here_are_refused(void **state) {
  fa_args args = good_args();
  (void)state;
  args.dtype = FA_BF16;
  args.target = FA_TARGET_SM80;
  assert_all_refuse(ONE_CALL, &args, FA_UNSUPPORTED, "target: sm80|cpu");
  args.target = FA_TARGET_SM90;
  assert_all_refuse(ONE_CALL, &args, FA_UNSUPPORTED, "target: sm90|cpu");
}

static void variants_are_checked(void **state) {
  static const char *const cases[][2] = {
      {"nosuch", "'nosuch'|causal"},
      {"causal", "'causal'|field"},
      {"Upper", "'Upper'|a-z 0-9 _"},
      {"../../etc", "'../../etc'|a-z"},
      {"d64", "'d64'|field"},
      {"two\twords", "a-z 0-9 _"},
      {"nosuch nosuch", "'nosuch' is named twice"},
  };
  char long_names[200];
  fa_args args = good_args();
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    args.variants = cases[i][0];
    assert_all_refuse(ONE_CALL, &args, FA_INVALID, cases[i][1]);
    assert_all_refuse(WITH_KERNEL & ~(LAUNCH_PRE | SIZE_PRE), &args, FA_INVALID, "variants: '");
  }
  memset(long_names, 'a', sizeof long_names - 1);
  long_names[sizeof long_names - 1] = '\0';
  args.variants = long_names;
  assert_all_refuse(ONE_CALL, &args, FA_INVALID, "variants: 'aaaa|at most 119 bytes");
  args.variants = "";
  assert_int_equal(make_call(SIZE_BWD, &args), FA_OK);
}

static void the_scale_is_checked(void **state) {
  static const struct scale_case {
    float scale;
    const char *words;
  } cases[] = {
      {NAN, "softmax_scale: nan|finite and > 0"},
      {-NAN, "softmax_scale: |nan|finite and > 0"},
      {INFINITY, "softmax_scale: inf|finite and > 0"},
      {-INFINITY, "softmax_scale: -inf|finite and > 0"},
      {-0.125f, "softmax_scale: -0.125|finite and > 0"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fa_args args = good_args();
    args.softmax_scale = cases[i].scale;
    assert_all_refuse(ALL, &args, FA_INVALID, cases[i].words);
  }
}

/* ---- Parameters, streams -------------------------------------------------------------------- */

static void foreign_parameters_are_refused(void **state) {
  fa_param param = {NULL, 0, 0, 30.0, NULL, 0, NULL};
  fa_args args = good_args();
  int32_t slot = 77;
  (void)state;
  args.num_params = 1;
  assert_all_refuse(RUN, &args, FA_INVALID, "params: NULL|num_params 1");
  args.params = &param;
  assert_all_refuse(RUN, &args, FA_INVALID, "params: |by slot|none");
  param.name = "softcap.cap";
  assert_all_refuse(RUN, &args, FA_INVALID, "params: 'softcap.cap'|none");
  expect_refused(fa_param_slot(&slot, kernels[FA_FWD], "softcap.cap"), FA_INVALID,
                 "'softcap.cap'|none");
  assert_int_equal(slot, 77);
}

static void a_stream_is_refused_on_cpu(void **state) {
  struct CUstream_st *stream = (struct CUstream_st *)(void *)&memory;
  fa_args args = good_args();
  (void)state;
  expect_refused(fa_forward(context, &args, stream), FA_INVALID, "stream: 0x|NULL on cpu");
  expect_refused(fa_backward(context, &args, stream), FA_INVALID, "stream: 0x|NULL on cpu");
  expect_refused(fa_launch(kernels[FA_FWD], &args, stream), FA_INVALID, "stream: 0x|NULL on cpu");
  expect_refused(fa_memory_copy(context, memory.o, memory.q, 4, stream), FA_INVALID,
                 "stream: 0x|NULL on cpu");
  assert_untouched("a stream");
}

/* ---- Pointers and structs ------------------------------------------------------------------- */

static void null_pointers_are_named(void **state) {
  fa_args args = good_args();
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel = kernels[FA_FWD];
  fa_context *other;
  fa_context_info context_info = FA_CONTEXT_INFO_INIT;
  fa_kernel_info kernel_info = FA_KERNEL_INFO_INIT;
  void *block = &memory;
  int32_t slot;
  size_t bytes;
  char reason[100];
  (void)state;
  expect_ok(fa_spec_parse(&spec, "fwd cpu f32 d16"));
  expect_refused(fa_context_create(NULL, NULL), FA_INVALID, "out: NULL");
  expect_refused(fa_context_info_get(NULL, context), FA_INVALID, "fa_context_info: NULL");
  expect_refused(fa_context_info_get(&context_info, NULL), FA_INVALID, "context: NULL");
  expect_refused(fa_check(NULL, reason, sizeof reason), FA_INVALID, "fa_spec: NULL");
  assert_string_equal(reason, fa_error_message());
  expect_refused(fa_forward(NULL, &args, NULL), FA_INVALID, "context: NULL");
  expect_refused(fa_backward(NULL, &args, NULL), FA_INVALID, "context: NULL");
  expect_refused(fa_forward(context, NULL, NULL), FA_INVALID, "fa_args: NULL");
  expect_refused(fa_backward(context, NULL, NULL), FA_INVALID, "fa_args: NULL");
  expect_refused(fa_get_kernel(NULL, context, &spec), FA_INVALID, "out: NULL");
  expect_refused(fa_get_kernel(&kernel, NULL, &spec), FA_INVALID, "context: NULL");
  assert_null(kernel);
  kernel = kernels[FA_FWD];
  expect_refused(fa_get_kernel(&kernel, context, NULL), FA_INVALID, "fa_spec: NULL");
  assert_null(kernel);
  expect_refused(fa_prebuild(NULL, &spec, 1), FA_INVALID, "context: NULL");
  expect_refused(fa_prebuild(context, NULL, 1), FA_INVALID, "specs: NULL|count 1");
  expect_refused(fa_workspace_size(NULL, kernels[FA_FWD], &args), FA_INVALID, "bytes: NULL");
  expect_refused(fa_workspace_size(&bytes, NULL, &args), FA_INVALID, "kernel: NULL");
  expect_refused(fa_workspace_size(&bytes, kernels[FA_FWD], NULL), FA_INVALID, "fa_args: NULL");
  expect_refused(fa_launch(NULL, &args, NULL), FA_INVALID, "kernel: NULL");
  expect_refused(fa_launch(kernels[FA_FWD], NULL, NULL), FA_INVALID, "fa_args: NULL");
  expect_refused(fa_param_slot(NULL, kernels[FA_FWD], "a.b"), FA_INVALID, "slot: NULL");
  expect_refused(fa_param_slot(&slot, NULL, "a.b"), FA_INVALID, "kernel: NULL");
  expect_refused(fa_param_slot(&slot, kernels[FA_FWD], NULL), FA_INVALID, "name: NULL");
  expect_refused(fa_kernel_info_get(NULL, kernels[FA_FWD]), FA_INVALID, "fa_kernel_info: NULL");
  expect_refused(fa_kernel_info_get(&kernel_info, NULL), FA_INVALID, "kernel: NULL");
  assert_string_equal(fa_kernel_source(NULL), "");
  assert_string_equal(fa_kernel_launch_source(NULL), "");
  expect_refused(fa_memory_alloc(NULL, context, 4), FA_INVALID, "out: NULL");
  expect_refused(fa_memory_alloc(&block, NULL, 4), FA_INVALID, "context: NULL");
  assert_null(block);
  expect_refused(fa_memory_copy(NULL, memory.o, memory.q, 4, NULL), FA_INVALID, "context: NULL");
  expect_refused(fa_memory_copy(context, NULL, memory.q, 4, NULL), FA_INVALID, "to: NULL|bytes 4");
  expect_refused(fa_memory_copy(context, memory.o, NULL, 4, NULL), FA_INVALID,
                 "from: NULL|bytes 4");
  assert_untouched("a NULL pointer");
  fa_memory_free(context, NULL);
  fa_memory_free(NULL, NULL);
  fa_context_destroy(NULL);
  expect_ok(fa_context_create(&other, NULL));
  fa_context_destroy(other);
}

static void struct_sizes_are_checked(void **state) {
  static const size_t wrong[] = {0, 8, SIZE_MAX};
  fa_context *other;
  const fa_kernel *kernel;
  char words[64], reason[256];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(wrong); ++i) {
    fa_args args = good_args();
    fa_options options = FA_OPTIONS_INIT;
    fa_spec spec = FA_SPEC_INIT;
    fa_context_info context_info = FA_CONTEXT_INFO_INIT;
    fa_kernel_info kernel_info = FA_KERNEL_INFO_INIT;
    args.size = options.size = spec.size = context_info.size = kernel_info.size = wrong[i];
    snprintf(words, sizeof words, "fa_args.size: %zu|must be at", wrong[i]);
    assert_all_refuse(ALL, &args, FA_BAD_STRUCT, words);
    snprintf(words, sizeof words, ".size: %zu|must be at", wrong[i]);
    expect_refused(fa_context_create(&other, &options), FA_BAD_STRUCT, words);
    assert_null(other);
    expect_refused(fa_get_kernel(&kernel, context, &spec), FA_BAD_STRUCT, words);
    assert_null(kernel);
    expect_refused(fa_check(&spec, reason, sizeof reason), FA_BAD_STRUCT, words);
    assert_string_equal(reason, fa_error_message());
    expect_refused(fa_prebuild(context, &spec, 1), FA_BAD_STRUCT, words);
    expect_refused(fa_context_info_get(&context_info, context), FA_BAD_STRUCT, words);
    expect_refused(fa_kernel_info_get(&kernel_info, kernels[FA_FWD]), FA_BAD_STRUCT, words);
  }
}

/* Arguments from a newer header: accepted while what this library does not know is zero. */
static void unknown_members_must_be_zero(void **state) {
  struct newer {
    fa_args args;
    int64_t more[2];
  } newer = {.args = good_args()};
  (void)state;
  newer.args.size = sizeof newer;
  for (int call = 1; call <= SIZE_BWD; call *= 2) expect_ok(make_call(call, &newer.args));
  calls_fresh(NULL);
  newer.more[1] = 1;
  assert_all_refuse(ALL, &newer.args, FA_BAD_STRUCT, "fa_args|is set|knows the first");
}

/* ---- Contexts ------------------------------------------------------------------------------- */

static void assert_options_refused(fa_options options, const char *words) {
  fa_context *out = (fa_context *)(void *)&memory;
  expect_refused(fa_context_create(&out, &options), FA_INVALID, words);
  assert_null(out);
}

static void options_are_checked(void **state) {
  const fa_options none = FA_OPTIONS_INIT;
  (void)state;
  for (int backend = 3; backend <= 7; backend += 4) {
    fa_options o = none;
    o.backend = backend;
    assert_options_refused(o, backend == 3 ? "backend: 3|FA_CPU" : "backend: 7|FA_CPU");
  }
  fa_options o = none;
  o.backend = -1;
  assert_options_refused(o, "backend: -1|FA_CPU");
  o = none;
  o.backend = FA_CPU;
  o.threads = 1025;
  assert_options_refused(o, "threads: 1025|1 to 1024");
  o.threads = -1;
  assert_options_refused(o, "threads: -1|1 to 1024");
  o = none;
  o.log = "loud";
  assert_options_refused(o, "log: 'loud'|off|warn|info|debug");
  o = none;
  o.device = -1;
  assert_options_refused(o, "device: -1|0 or more");
  o.backend = FA_CPU;
  o.device = 1;
  assert_options_refused(o, "device|FA_CPU");
  o.device = 0;
  o.cu_context = &memory;
  assert_options_refused(o, "cu_context|FA_CPU");
  o = none;
  o.reserved = 1;
  assert_options_refused(o, "reserved|0");
}

static void the_environment_is_checked_too(void **state) {
  static const char *const threads[] = {"0", "1025", "-3", "two", "4x", "99999999999999999999"};
  fa_options options = FA_OPTIONS_INIT;
  char words[64];
  (void)state;
  options.backend = FA_CPU;
  for (size_t i = 0; i < COUNT_OF(threads); ++i) {
    setenv("FA_THREADS", threads[i], 1);
    snprintf(words, sizeof words, "FA_THREADS: '%s'|1 to 1024", threads[i]);
    assert_options_refused(options, words);
  }
  unsetenv("FA_THREADS");
  setenv("FA_LOG", "loud", 1);
  assert_options_refused(options, "'loud'|off|info");
  unsetenv("FA_LOG");
}

static void a_missing_template_folder_is_refused(void **state) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *other;
  const fa_kernel *kernel;
  fa_spec spec = FA_SPEC_INIT;
  (void)state;
  expect_ok(fa_spec_parse(&spec, "fwd cpu f32 d64"));
  options.backend = FA_CPU;
  options.template_dir = "/nonexistent/templates";
  expect_ok(fa_context_create(&other, &options));
  expect_refused(fa_get_kernel(&kernel, other, &spec), FA_INVALID,
                 "template_dir: /nonexistent/templates|No such file");
  assert_null(kernel);
  fa_context_destroy(other);
}

static void cuda_without_a_driver_says_so(void **state) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *other;
  (void)state;
  options.backend = FA_CUDA;
  fa_status status = fa_context_create(&other, &options);
  if (status != FA_NO_DRIVER) {
    fa_context_destroy(other);
    print_message("skipped: %s here, not a machine without a driver\n", fa_status_name(status));
    skip();
  }
  expect_words("FA_CUDA", fa_error_message(), "driver");
  assert_null(other);
  options.backend = FA_BACKEND_BEST;
  expect_ok(fa_context_create(&other, &options));
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  expect_ok(fa_context_info_get(&info, other));
  assert_int_equal(info.backend, FA_CPU);
  fa_context_destroy(other);
}

/* ---- fa_check ------------------------------------------------------------------------------- */

/* The same status and sentence as fa_get_kernel, in a buffer of any size. */
static void check_agrees_with_get_kernel(void **state) {
  static const char *const words[] = {"fwd cpu f32 d64",         "bwd bf16 d72 gqa3 causal det",
                                      "pre cpu f16 d128 v64",    "fwd cpu f32 d64 nosuch",
                                      "bwd f32 d8 causal tiger", "fwd f16 d256 v8"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words) + 4; ++i) {
    fa_spec spec = FA_SPEC_INIT;
    const fa_kernel *kernel;
    char reason[512] = "unset", cut[20];
    expect_ok(fa_spec_parse(&spec, words[i % COUNT_OF(words)]));
    if (i >= COUNT_OF(words)) ((int32_t *)&spec.pass)[(i - COUNT_OF(words)) * 2] = 99;
    fa_status wanted = fa_get_kernel(&kernel, context, &spec);
    if (fa_check(&spec, reason, sizeof reason) != wanted)
      fail_msg("spec %zu: fa_check: %s, fa_get_kernel: %s", i, reason, fa_status_name(wanted));
    if (!wanted) {
      assert_string_equal(reason, "");
      continue;
    }
    char message[512];
    snprintf(message, sizeof message, "%s", fa_error_message());
    assert_string_equal(reason, message);
    assert_int_equal(fa_get_kernel(&kernel, context, &spec), wanted);
    assert_string_equal(fa_error_message(), message);
    assert_int_equal(fa_check(&spec, NULL, 0), wanted);
    assert_int_equal(fa_check(&spec, cut, sizeof cut), wanted);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, reason, sizeof cut - 1);
  }
}

static void gpu_specs_are_unsupported_on_a_cpu_context(void **state) {
  static const char *const words[] = {"fwd sm80 bf16 d64", "bwd sm90 f16 d128",
                                      "pre sm80 cc86 f16 d8"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    fa_spec spec = FA_SPEC_INIT;
    const fa_kernel *kernel;
    expect_ok(fa_spec_parse(&spec, words[i]));
    expect_refused(fa_get_kernel(&kernel, context, &spec), FA_UNSUPPORTED, "target: sm|cpu");
    assert_null(kernel);
  }
}

int main(void) {
#define FRESH(test) cmocka_unit_test_setup(test, calls_fresh)
  const struct CMUnitTest tests[] = {
      FRESH(good_arguments_are_accepted),
      FRESH(sizes_are_checked),
      FRESH(sizes_together_are_checked),
      FRESH(what_selects_the_kernel_is_checked),
      FRESH(targets_that_cannot_run_here_are_refused),
      FRESH(variants_are_checked),
      FRESH(the_scale_is_checked),
      FRESH(foreign_parameters_are_refused),
      FRESH(a_stream_is_refused_on_cpu),
      FRESH(null_pointers_are_named),
      FRESH(struct_sizes_are_checked),
      FRESH(unknown_members_must_be_zero),
      FRESH(options_are_checked),
      FRESH(the_environment_is_checked_too),
      FRESH(a_missing_template_folder_is_refused),
      FRESH(cuda_without_a_driver_says_so),
      FRESH(check_agrees_with_get_kernel),
      FRESH(gpu_specs_are_unsupported_on_a_cpu_context),
  };
  return cmocka_run_group_tests(tests, calls_begin, calls_end);
}
