/* test_bad_input.c: everything that can be wrong with what a caller gives, through the public API.
   Each case gets its status and a sentence with the field and the value, and touches no memory. */
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static problem memory, before;
static fa_context *context;
static const fa_kernel *kernels[FA_BWD + 1]; /* by pass */

static int begin(void **state) {
  context = problem_context(2);
  for (int pass = FA_FWD; pass <= FA_BWD; ++pass)
    kernels[pass] = problem_kernel(context, (fa_pass)pass);
  return expect_to_end(state);
}

static int end(void **state) {
  (void)state;
  fa_context_destroy(context);
  return 0;
}

static int fresh_memory(void **state) {
  (void)state;
  problem_fill(&memory);
  before = memory;
  return 0;
}

static void assert_untouched(const char *what) {
  for (size_t i = 0; i < sizeof memory; ++i)
    if (((unsigned char *)&memory)[i] != ((unsigned char *)&before)[i])
      fail_msg("%s: byte %zu of the problem was written", what, i);
}

/* ---- The calls that take arguments ---------------------------------------------------------------- */

enum {
  FORWARD = 1,
  BACKWARD = 2,
  LAUNCH_FWD = 4,
  LAUNCH_PRE = 8,
  LAUNCH_BWD = 16,
  SIZE_FWD = 32,
  SIZE_PRE = 64,
  SIZE_BWD = 128,
  ONE_CALL = FORWARD | BACKWARD,
  LAUNCH = LAUNCH_FWD | LAUNCH_PRE | LAUNCH_BWD,
  SIZE = SIZE_FWD | SIZE_PRE | SIZE_BWD,
  WITH_KERNEL = LAUNCH | SIZE,
  ALL = ONE_CALL | LAUNCH | SIZE,
  RUN = ONE_CALL | LAUNCH,
  RUN_FWD = FORWARD | LAUNCH_FWD,
  RUN_BWD = BACKWARD | LAUNCH_BWD
};

static const char *name_of_call(int call) {
  return call == FORWARD      ? "fa_forward"
         : call == BACKWARD   ? "fa_backward"
         : call == LAUNCH_FWD ? "fa_launch fwd"
         : call == LAUNCH_PRE ? "fa_launch pre"
         : call == LAUNCH_BWD ? "fa_launch bwd"
         : call == SIZE_FWD   ? "fa_workspace_size fwd"
         : call == SIZE_PRE   ? "fa_workspace_size pre"
                              : "fa_workspace_size bwd";
}

static fa_status make_call(int call, const fa_args *args) {
  size_t bytes = 12345;
  if (call == FORWARD) return fa_forward(context, args, NULL);
  if (call == BACKWARD) return fa_backward(context, args, NULL);
  int pass = call & (LAUNCH_FWD | SIZE_FWD)   ? FA_FWD
             : call & (LAUNCH_PRE | SIZE_PRE) ? FA_PRE
                                              : FA_BWD;
  if (call & LAUNCH) return fa_launch(kernels[pass], args, NULL);
  fa_status status = fa_workspace_size(&bytes, kernels[pass], args);
  if (status && bytes != 12345) fail_msg("fa_workspace_size failed and wrote %zu", bytes);
  return status;
}

static fa_args good_args(void) {
  fa_args args = problem_args(&memory);
  args.workspace = memory.workspace;
  args.workspace_size = sizeof memory.workspace;
  return args;
}

/* Makes each call of the set, which must all refuse. */
static void assert_all_refuse(int calls, const fa_args *args, fa_status wanted, const char *words) {
  for (int call = 1; call <= SIZE_BWD; call *= 2) {
    if (!(calls & call)) continue;
    fa_status got = make_call(call, args);
    if (got != wanted)
      fail_msg("%s: %s (%s), wanted %s with '%s'", name_of_call(call), fa_status_name(got),
               got ? fa_error_message() : "", fa_status_name(wanted), words);
    expect_words(name_of_call(call), fa_error_message(), words);
    assert_untouched(name_of_call(call));
  }
}

static void good_arguments_are_accepted(void **state) {
  (void)state;
  for (int call = 1; call <= SIZE_BWD; call *= 2) {
    fa_args args = good_args();
    expect_ok(make_call(call, &args));
  }
}

/* ---- Numbers --------------------------------------------------------------------------------------- */

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

/* ---- Tensors ---------------------------------------------------------------------------------------- */

enum { NOT_USED, IN, OUT };

/* The pointers and tensors of fa_args: what each pass does with them. */
static const struct operand {
  const char *name;
  size_t offset;
  int is_tensor;
  int use[FA_BWD + 1]; /* by pass */
} operands[] = {
    {"q", offsetof(fa_args, q), 1, {0, IN, NOT_USED, IN}},
    {"k", offsetof(fa_args, k), 1, {0, IN, NOT_USED, IN}},
    {"v", offsetof(fa_args, v), 1, {0, IN, NOT_USED, IN}},
    {"o", offsetof(fa_args, o), 1, {0, OUT, IN, IN}},
    {"lse", offsetof(fa_args, lse), 0, {0, OUT, NOT_USED, IN}},
    {"dout", offsetof(fa_args, dout), 1, {0, NOT_USED, IN, IN}},
    {"dlse", offsetof(fa_args, dlse), 0, {0, NOT_USED, IN, IN}},
    {"dq", offsetof(fa_args, dq), 1, {0, NOT_USED, NOT_USED, OUT}},
    {"dk", offsetof(fa_args, dk), 1, {0, NOT_USED, NOT_USED, OUT}},
    {"dv", offsetof(fa_args, dv), 1, {0, NOT_USED, NOT_USED, OUT}},
};

static const int calls_of_pass[] = {0, RUN_FWD, LAUNCH_PRE, RUN_BWD};

/* The address in an operand: the first member of a tensor, or the pointer itself. */
static char **address_of(fa_args *args, const struct operand *o) {
  return (char **)(void *)((char *)args + o->offset);
}

static void null_data_is_refused(void **state) {
  char words[64];
  (void)state;
  for (int pass = FA_FWD; pass <= FA_BWD; ++pass)
    for (size_t i = 0; i < COUNT_OF(operands); ++i) {
      if (operands[i].use[pass] == NOT_USED || !strcmp(operands[i].name, "dlse")) continue;
      fa_args args = good_args();
      *address_of(&args, &operands[i]) = NULL;
      snprintf(words, sizeof words, "%s: NULL|elements are required", operands[i].name);
      assert_all_refuse(calls_of_pass[pass], &args, FA_INVALID, words);
    }
}

static void misaligned_data_is_refused(void **state) {
  char words[128];
  (void)state;
  for (int pass = FA_FWD; pass <= FA_BWD; ++pass)
    for (size_t i = 0; i < COUNT_OF(operands); ++i)
      for (int shift = 1; shift < 4; ++shift) {
        if (operands[i].use[pass] == NOT_USED) continue;
        fa_args args = good_args();
        char *address = *address_of(&args, &operands[i]) += shift;
        snprintf(words, sizeof words, "%s: address %p|multiple of 4", operands[i].name,
                 (void *)address);
        assert_all_refuse(calls_of_pass[pass], &args, FA_INVALID, words);
      }
}

static void assert_stride_refused(int pass, const struct operand *o, int which, int64_t stride,
                                  const char *reason) {
  static const char *const fields[] = {"stride_batch", "stride_seq", "stride_head"};
  char words[128];
  fa_args args = good_args();
  fa_tensor *tensor = (fa_tensor *)(void *)address_of(&args, o);
  int64_t *strides[] = {&tensor->stride_batch, &tensor->stride_seq, &tensor->stride_head};
  *strides[which] = stride;
  snprintf(words, sizeof words, reason, o->name, stride < 0 ? fields[which] : "",
           (long long)stride);
  assert_all_refuse(calls_of_pass[pass], &args, FA_INVALID, words);
}

static void bad_strides_are_refused(void **state) {
  (void)state;
  for (int pass = FA_FWD; pass <= FA_BWD; ++pass)
    for (size_t i = 0; i < COUNT_OF(operands); ++i)
      for (int which = 0; which < 3; ++which) {
        const struct operand *o = &operands[i];
        if (o->use[pass] == NOT_USED || !o->is_tensor) continue;
        assert_stride_refused(pass, o, which, -1, "%s.%s: %lld|0 or more");
        assert_stride_refused(pass, o, which, INT64_MIN, "%s.%s: %lld|0 or more");
        assert_stride_refused(pass, o, which, INT64_MAX,
                              "%s%s: strides|%lld|past the address space");
        assert_stride_refused(pass, o, which, INT64_MAX / 4 - 1,
                              "%s%s: strides|%lld|past the address space");
        if (o->use[pass] != OUT) continue;
        assert_stride_refused(pass, o, which, 0, "%s%s: strides|%lld|its own elements overlap");
        assert_stride_refused(pass, o, which, 1, "%s%s: strides|%lld|its own elements overlap");
        assert_stride_refused(pass, o, which, DIM_V - 1,
                              "%s%s: strides|%lld|its own elements overlap");
      }
}

/* An output placed at another tensor, or elsewhere across it. */
static void outputs_overlap_nothing(void **state) {
  static const int shifts[] = {0, 4, 64};
  char words[64];
  (void)state;
  for (int pass = FA_FWD; pass <= FA_BWD; ++pass)
    for (size_t i = 0; i < COUNT_OF(operands); ++i)
      for (size_t j = 0; j < COUNT_OF(operands); ++j)
        for (size_t s = 0; s < COUNT_OF(shifts); ++s) {
          const struct operand *out = &operands[i], *other = &operands[j];
          if (out->use[pass] != OUT || other->use[pass] == NOT_USED || i == j) continue;
          fa_args args = good_args();
          *address_of(&args, out) = *address_of(&args, other) + shifts[s];
          snprintf(words, sizeof words, "overlaps|%s|%s", out->name, other->name);
          assert_all_refuse(calls_of_pass[pass], &args, FA_INVALID, words);
        }
}

/* ---- Workspace, parameters, streams ---------------------------------------------------------------- */

static size_t needed_bytes(int pass) {
  size_t bytes = 0;
  fa_args args = good_args();
  expect_ok(fa_workspace_size(&bytes, kernels[pass], &args));
  return bytes;
}

static void the_workspace_is_checked(void **state) {
  static const int passes[] = {FA_PRE, FA_BWD};
  char words[128];
  (void)state;
  assert_int_equal(needed_bytes(FA_FWD), 0);
  for (size_t i = 0; i < COUNT_OF(passes); ++i) {
    size_t needed = needed_bytes(passes[i]);
    assert_in_range(needed, ROWS * 4, WORKSPACE_BYTES);
    fa_args args = good_args();
    args.workspace_size = needed - 1;
    snprintf(words, sizeof words, "workspace_size: %zu|at least %zu", needed - 1, needed);
    assert_all_refuse(calls_of_pass[passes[i]], &args, FA_INVALID, words);

    args = good_args();
    args.workspace = memory.workspace + 128;
    args.workspace_size -= 128;
    snprintf(words, sizeof words, "workspace: address %p|multiple of 256", args.workspace);
    assert_all_refuse(calls_of_pass[passes[i]], &args, FA_INVALID, words);

    args = good_args();
    args.workspace = NULL;
    snprintf(words, sizeof words, "workspace: NULL|%zu bytes", needed);
    assert_all_refuse(calls_of_pass[passes[i]] & LAUNCH, &args, FA_INVALID, words);

    args = good_args();
    args.workspace_limit = needed - 1;
    snprintf(words, sizeof words, "workspace_limit: %zu|needs %zu", needed - 1, needed);
    assert_all_refuse(calls_of_pass[passes[i]], &args, FA_UNSUPPORTED, words);
    args.workspace = NULL;
    assert_all_refuse(calls_of_pass[passes[i]] & ONE_CALL, &args, FA_UNSUPPORTED, words);
  }
}

static void the_workspace_overlaps_no_tensor(void **state) {
  char words[64];
  (void)state;
  for (int pass = FA_PRE; pass <= FA_BWD; ++pass)
    for (size_t i = 0; i < COUNT_OF(operands); ++i) {
      if (operands[i].use[pass] == NOT_USED) continue;
      fa_args args = good_args();
      args.workspace = *address_of(&args, &operands[i]);
      args.workspace_size = needed_bytes(pass);
      snprintf(words, sizeof words, "workspace|overlaps|");
      assert_all_refuse(calls_of_pass[pass], &args, FA_INVALID, words);
    }
}

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

/* ---- Pointers and structs ---------------------------------------------------------------------------- */

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
  fresh_memory(NULL);
  newer.more[1] = 1;
  assert_all_refuse(ALL, &newer.args, FA_BAD_STRUCT, "fa_args|is set|knows the first");
}

/* ---- Contexts ----------------------------------------------------------------------------------------- */

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
  assert_options_refused(o, "log: 'loud'|off|info");
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

/* ---- fa_check --------------------------------------------------------------------------------------- */

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

/* ---- Layouts that are allowed ------------------------------------------------------------------------ */

/* Views of one packed tensor: batch x seqlen x (q heads, k heads, v heads) x dim. */
static fa_tensor packed_view(float *base, int64_t seqlen, int64_t first_head) {
  const int64_t heads = HEADS_Q + 2 * HEADS_KV;
  fa_tensor view = fa_bshd(base + first_head * DIM_V, seqlen, heads, DIM_V);
  return view;
}

static void packed_tensors_are_allowed(void **state) {
  enum { HEADS = HEADS_Q + 2 * HEADS_KV, COUNT = BATCH * SEQLEN_Q * HEADS * DIM_V };
  static float qkv[COUNT], gradients[COUNT], dense[COUNT];
  fa_args args = problem_args(&memory);
  (void)state;
  for (int i = 0; i < COUNT; ++i) qkv[i] = (float)(i * 7 % 11) / 8 - 0.6f;
  args.seqlen_k = SEQLEN_Q;
  args.dim_qk = DIM_V;
  args.q = packed_view(qkv, SEQLEN_Q, 0);
  args.k = packed_view(qkv, SEQLEN_Q, HEADS_Q);
  args.v = packed_view(qkv, SEQLEN_Q, HEADS_Q + HEADS_KV);
  expect_ok(fa_forward(context, &args, NULL));
  args.dq = packed_view(dense, SEQLEN_Q, 0);
  args.dk = packed_view(dense, SEQLEN_Q, HEADS_Q);
  args.dv = packed_view(dense, SEQLEN_Q, HEADS_Q + HEADS_KV);
  expect_ok(fa_backward(context, &args, NULL));

  /* Outputs of their own: the same values. */
  args.dq = fa_bshd(gradients, SEQLEN_Q, HEADS_Q, DIM_V);
  args.dk = fa_bshd(gradients + BATCH * SEQLEN_Q * HEADS_Q * DIM_V, SEQLEN_Q, HEADS_KV, DIM_V);
  args.dv = fa_bshd(gradients + BATCH * SEQLEN_Q * (HEADS_Q + HEADS_KV) * DIM_V, SEQLEN_Q, HEADS_KV,
                    DIM_V);
  expect_ok(fa_backward(context, &args, NULL));
  for (int64_t row = 0; row < BATCH * SEQLEN_Q; ++row)
    for (int64_t head = 0; head < HEADS; ++head) {
      const float *got = dense + (row * HEADS + head) * DIM_V, *wanted;
      if (head < HEADS_Q)
        wanted = gradients + (row * HEADS_Q + head) * DIM_V;
      else
        wanted = gradients +
                 BATCH * SEQLEN_Q * (HEADS_Q + (head >= HEADS_Q + HEADS_KV) * HEADS_KV) * DIM_V +
                 (row * HEADS_KV + (head - HEADS_Q) % HEADS_KV) * DIM_V;
      assert_memory_equal(got, wanted, DIM_V * sizeof(float));
    }
}

/* Inputs may repeat by strides of 0 and overlap each other. */
static void inputs_may_repeat_and_overlap(void **state) {
  fa_args args = good_args();
  (void)state;
  args.k.stride_batch = args.k.stride_head = 0;
  args.v.stride_seq = 0;
  args.q = fa_bshd(memory.k, 0, 0, 0);
  args.dout.stride_batch = args.dout.stride_seq = args.dout.stride_head = 0;
  expect_ok(fa_forward(context, &args, NULL));
  expect_ok(fa_backward(context, &args, NULL));
}

static void tensors_side_by_side_do_not_overlap(void **state) {
  fa_args args = problem_args(&memory);
  float *o = memory.dq;
  (void)state;
  args.o = fa_bshd(o, SEQLEN_Q, HEADS_Q, DIM_V);
  args.lse = o + ROWS * DIM_V; /* the very next element */
  expect_ok(fa_forward(context, &args, NULL));
  args.lse -= 1;
  expect_refused(fa_forward(context, &args, NULL), FA_INVALID, "overlaps|o|lse");
}

int main(void) {
#define FRESH(test) cmocka_unit_test_setup(test, fresh_memory)
  const struct CMUnitTest tests[] = {
      FRESH(good_arguments_are_accepted),
      FRESH(sizes_are_checked),
      FRESH(sizes_together_are_checked),
      FRESH(what_selects_the_kernel_is_checked),
      FRESH(targets_that_cannot_run_here_are_refused),
      FRESH(variants_are_checked),
      FRESH(the_scale_is_checked),
      FRESH(null_data_is_refused),
      FRESH(misaligned_data_is_refused),
      FRESH(bad_strides_are_refused),
      FRESH(outputs_overlap_nothing),
      FRESH(the_workspace_is_checked),
      FRESH(the_workspace_overlaps_no_tensor),
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
      FRESH(packed_tensors_are_allowed),
      FRESH(inputs_may_repeat_and_overlap),
      FRESH(tensors_side_by_side_do_not_overlap),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
