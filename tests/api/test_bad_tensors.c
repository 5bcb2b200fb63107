/* test_bad_tensors.c: where tensors and workspace may not lie, through the public API: each case
   gets its status and a sentence with the tensor's name, and touches no memory. And where they
   may. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

/* ---- Tensors -------------------------------------------------------------------------------- */

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

/* ---- Workspace ------------------------------------------------------------------------------ */

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

/* ---- Layouts that are allowed --------------------------------------------------------------- */

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
#define FRESH(test) cmocka_unit_test_setup(test, calls_fresh)
  const struct CMUnitTest tests[] = {
      FRESH(null_data_is_refused),
      FRESH(misaligned_data_is_refused),
      FRESH(bad_strides_are_refused),
      FRESH(outputs_overlap_nothing),
      FRESH(the_workspace_is_checked),
      FRESH(the_workspace_overlaps_no_tensor),
      FRESH(packed_tensors_are_allowed),
      FRESH(inputs_may_repeat_and_overlap),
      FRESH(tensors_side_by_side_do_not_overlap),
  };
  return cmocka_run_group_tests(tests, calls_begin, calls_end);
}
