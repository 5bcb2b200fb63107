/* test_large.c: sizes that take gigabytes of a GPU's memory, with answers that are known: offsets
   beyond 2^31 elements in outputs and in the sum of dQ, and more tiles than 65535 of any height.
   What fits cpu as well, tests/numeric/public_bugs/bugs_shapes.c has: b05, b12, b45, b48. */
#include "numeric/dense.h"
#include "runtime/cli/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 41;

/* Device memory of one test, freed at its end, also when it fails. */
static void *blocks[16];
static int num_blocks;

static void *device_memory(size_t bytes) {
  void *memory;
  assert_in_range(num_blocks, 0, COUNT_OF(blocks) - 1);
  if (fa_memory_alloc(&memory, support_context(), bytes) != FA_OK) {
    print_message("skipped: %.1f GB: %s\n", (double)bytes * 1e-9, fa_error_message());
    skip();
  }
  return blocks[num_blocks++] = memory;
}

static int free_blocks(void **state) {
  (void)state;
  while (num_blocks > 0) fa_memory_free(support_context(), blocks[--num_blocks]);
  return 0;
}

/* ---- Outputs beyond 2^31 elements -------------------------------------------------------- */

/* Fails unless each of `count` stretches of device memory holds the bytes of `one`. */
static void assert_stretches_same(const char *what, const void *device, int64_t count,
                                  const void *one, size_t bytes) {
  char *found = malloc(bytes);
  assert_non_null(found);
  for (int64_t i = 0; i < count; ++i) {
    const char *stretch = (const char *)device + (size_t)i * bytes;
    expect_ok(fa_memory_copy(support_context(), found, stretch, bytes, NULL));
    if (memcmp(found, one, bytes)) fail_msg("%s of batch entry %d differs", what, (int)i);
  }
  free(found);
}

/* All batch entries read one entry's inputs, so that each writes what that one writes alone. O and
   dQ have more than 2^31 elements, and so has the sum of dQ in the workspace: 9 GB. */
static void expect_entries_same(const char *words) {
  const int64_t batch = 129, heads = 2, rows = 65600, keys = 40;
  dense one;
  dense_create(&one, words, 1, heads, rows, keys);
  dense_fill(&one, TRIAL_K, dense_normal, &seed);
  dense_fill(&one, TRIAL_V, dense_normal, &seed);
  dense_fill(&one, TRIAL_Q, closed_form, NULL);
  dense_fill(&one, TRIAL_DOUT, closed_form, NULL);
  dense_both(support_context(), &one);
  assert_true(batch * dense_count(&one, TRIAL_DQ) > INT64_C(1) << 31);

  static const trial_tensor outputs[] = {TRIAL_O, TRIAL_LSE, TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  fa_args args = one.args;
  void *memory[COUNT_OF(outputs)];
  for (size_t i = 0; i < COUNT_OF(outputs); ++i)
    memory[i] = device_memory((size_t)batch * dense_bytes(&one, outputs[i]));
  args.batch = batch;
  args.q.stride_batch = args.k.stride_batch = 0;
  args.v.stride_batch = args.dout.stride_batch = 0;
  args.o.data = memory[0];
  args.lse = memory[1];
  args.dq.data = memory[2];
  args.dk.data = memory[3];
  args.dv.data = memory[4];
  expect_ok(fa_forward(support_context(), &args, NULL));
  expect_ok(fa_backward(support_context(), &args, NULL));
  for (size_t i = 0; i < COUNT_OF(outputs); ++i)
    assert_stretches_same(trial_tensor_name(outputs[i]), memory[i], batch, one.memory[outputs[i]],
                          dense_bytes(&one, outputs[i]));
  dense_free(&one);
  free_blocks(NULL);
}

/* One key tile adds to dQ, in one order with and without det; blocks that share a group add to dK
   and dV in any. */
static void dq_and_o_beyond_32_bit_offsets(void **state) {
  (void)state;
  expect_entries_same("bwd cpu bf16 d128");
  expect_entries_same("bwd cpu bf16 d128 gqa2 det");
}

/* ---- More than 65535 tiles, whatever their height ---------------------------------------- */

enum { MANY = 256 * 65535 + 1, DIM = 8 };

/* One row for all, by strides of 0: column c holds values[c % 3]. */
static fa_tensor repeated_row(const double values[3]) {
  uint16_t row[DIM];
  void *memory = device_memory(sizeof row);
  for (int c = 0; c < DIM; ++c) storage_write(&row[c], values[c % 3], FA_BF16);
  expect_ok(fa_memory_copy(support_context(), memory, row, sizeof row, NULL));
  return (fa_tensor){memory, 0, 0, 0};
}

static fa_tensor output_tensor(int64_t rows) {
  return fa_bshd(device_memory((size_t)rows * DIM * 2), rows, 1, DIM);
}

static const double query[3] = {1, -2, 0.5}, key[3] = {0.25, 1, 2}, value[3] = {1, -1, 0},
                    gradient[3] = {1, -1, 0};

/* One head of the given lengths: every query, key, value and gradient is the same row. */
static fa_args repeated_problem(int64_t seqlen_q, int64_t seqlen_k, int causal) {
  fa_args args = FA_ARGS_INIT;
  args.batch = args.heads_q = args.heads_kv = 1;
  args.seqlen_q = seqlen_q;
  args.seqlen_k = seqlen_k;
  args.dtype = FA_BF16;
  args.dim_qk = args.dim_v = DIM;
  args.target = target_of_tests();
  args.causal = causal;
  args.q = repeated_row(query);
  args.k = repeated_row(key);
  args.v = repeated_row(value);
  args.dout = repeated_row(gradient);
  args.o = output_tensor(seqlen_q);
  args.lse = device_memory((size_t)seqlen_q * sizeof(float));
  return args;
}

static double score_of_all(void) {
  double sum = 0;
  for (int c = 0; c < DIM; ++c) sum += query[c % 3] * key[c % 3];
  return sum / sqrt(DIM);
}

/* Fails unless rows `first` to `last` of a device tensor hold factor * values[c % 3], within the
   relative tolerance. */
static void assert_rows(const char *what, const fa_tensor *tensor, int64_t first, int64_t last,
                        const double values[3], double factor, double tolerance) {
  size_t count = (size_t)(last - first + 1) * DIM;
  uint16_t *found = malloc(count * sizeof *found);
  assert_non_null(found);
  const uint16_t *from = (const uint16_t *)tensor->data + first * DIM;
  expect_ok(fa_memory_copy(support_context(), found, from, count * sizeof *found, NULL));
  for (size_t i = 0; i < count; ++i) {
    double got = storage_read(&found[i], FA_BF16), wanted = factor * values[i % DIM % 3];
    if (fabs(got - wanted) > tolerance * fabs(wanted) || got != got)
      fail_msg("%s: row %d column %d is %.9g, not %.9g", what, (int)(first + (int64_t)i / DIM),
               (int)i % DIM, got, wanted);
  }
  free(found);
}

static void assert_lse(const fa_args *args, int64_t first, int64_t last, double wanted) {
  size_t count = (size_t)(last - first + 1);
  float *found = malloc(count * sizeof *found);
  assert_non_null(found);
  expect_ok(
      fa_memory_copy(support_context(), found, args->lse + first, count * sizeof *found, NULL));
  for (size_t i = 0; i < count; ++i) assert_near("LSE", found[i], wanted, 2e-5);
  free(found);
}

static const double zeros[3] = {0, 0, 0};

static void backward(fa_args *args) {
  args->dq = output_tensor(args->seqlen_q);
  args->dk = output_tensor(args->seqlen_k);
  args->dv = output_tensor(args->seqlen_k);
  expect_ok(fa_backward(support_context(), args, NULL));
}

/* All rows see the one key: O = v, and dV sums up all of dO, which f32 still counts exactly. dP - D
   is 0, of whole numbers. */
static void more_query_tiles_than_16_bits(void **state) {
  fa_args args = repeated_problem(MANY, 1, 0);
  (void)state;
  expect_ok(fa_forward(support_context(), &args, NULL));
  assert_rows("O", &args.o, 0, MANY - 1, value, 1, 0);
  assert_lse(&args, 0, MANY - 1, score_of_all());
  backward(&args);
  assert_rows("dQ", &args.dq, 0, MANY - 1, zeros, 1, 0);
  assert_rows("dK", &args.dk, 0, 0, zeros, 1, 0);
  assert_rows("dV", &args.dv, 0, 0, gradient, MANY, 4e-3);
}

/* Only the last row sees the one key. */
static void a_causal_mask_that_leaves_one_row_of_all(void **state) {
  fa_args args = repeated_problem(MANY, 1, 1);
  (void)state;
  expect_ok(fa_forward(support_context(), &args, NULL));
  assert_rows("O", &args.o, 0, MANY - 2, zeros, 1, 0);
  assert_rows("O", &args.o, MANY - 1, MANY - 1, value, 1, 0);
  assert_lse(&args, 0, MANY - 2, -INFINITY);
  assert_lse(&args, MANY - 1, MANY - 1, score_of_all());
  backward(&args);
  assert_rows("dQ", &args.dq, 0, MANY - 1, zeros, 1, 0);
  assert_rows("dV", &args.dv, 0, 0, gradient, 1, 0);
}

/* Equal keys: O is the value of all, LSE grows by the logarithm of their number, and each key gets
   its share of dO. Under `causal` the first of two rows does not see the last key. */
static void assert_many_keys(int64_t keys, int causal) {
  const int64_t rows = causal ? 2 : 1;
  fa_args args = repeated_problem(rows, keys, causal);
  expect_ok(fa_forward(support_context(), &args, NULL));
  backward(&args);
  assert_rows("O", &args.o, 0, rows - 1, value, 1, 4e-3);
  double share = 0; /* of dO, to every key but the last */
  for (int64_t row = 0; row < rows; ++row) {
    double visible = (double)(keys - (rows - 1 - row));
    assert_lse(&args, row, row, score_of_all() + log(visible));
    share += 1 / visible;
  }
  assert_rows("dV", &args.dv, 0, keys - 2, gradient, share, 8e-3);
  assert_rows("dV", &args.dv, keys - 1, keys - 1, gradient, 1 / (double)keys, 8e-3);
}

static void more_key_tiles_than_16_bits(void **state) {
  (void)state;
  assert_many_keys(MANY, 0);
}

static void more_key_tiles_than_16_bits_under_causal(void **state) {
  (void)state;
  assert_many_keys(64 * 65535 + 1, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(dq_and_o_beyond_32_bit_offsets, free_blocks),
      cmocka_unit_test_teardown(more_query_tiles_than_16_bits, free_blocks),
      cmocka_unit_test_teardown(a_causal_mask_that_leaves_one_row_of_all, free_blocks),
      cmocka_unit_test_teardown(more_key_tiles_than_16_bits, free_blocks),
      cmocka_unit_test_teardown(more_key_tiles_than_16_bits_under_causal, free_blocks),
  };
  if (on_gpu()) return cmocka_run_group_tests(tests, support_begin, support_end);
  printf("SKIP test_large: FAGEN_TEST_TARGET names no GPU target\n");
  return 77;
}
