/* bugs_shapes.c: sizes, strides and addresses that broke other attention kernels: offsets beyond 32
   bits, odd layouts, empty problems, the last byte before an unmapped page. tests/public_bugs.md
   says which row is which report. Huge tensors repeat one row, or are mapped and hardly touched. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "../dense.h"

#include "runtime/cli/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t seed = 23;

static double constant(const void *with, trial_tensor tensor, const int64_t at[4]) {
  (void)tensor, (void)at;
  return *(const double *)with;
}

/* Address space of which only the touched pages take memory. */
static void *sparse(size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) {
    print_message("skipped: no address space for %zu bytes\n", bytes);
    skip();
  }
  return memory;
}

/* ---- Head dimensions --------------------------------------------------------------------- */

/* Columns between the head dimension and the tile's width may keep nothing of an earlier launch. */
static void b02_every_head_dimension_is_repeatable_after_nan(void **state) {
  dense poison;
  (void)state;
  dense_create(&poison, "bwd cpu f16 d256", 1, 2, 64, 64);
  dense_fill_inputs(&poison, constant, &(double){NAN});
  for (int dim = 8; dim <= 256; dim += 8) {
    char words[64];
    dense p[2];
    snprintf(words, sizeof words, "bwd cpu f16 d%d", dim);
    for (int run = 0; run < 2; ++run) {
      dense_create(&p[run], words, 1, 2, 70, 70);
      dense_fill_inputs(&p[run], dense_normal, &seed);
      if (run == 1) dense_both(support_context(), &poison);
      dense_both(support_context(), &p[run]);
    }
    for (int i = TRIAL_O; i <= TRIAL_DV; ++i) assert_same_bytes(&p[0], &p[1], i);
    for (int64_t i = 0; i < dense_count(&p[0], TRIAL_O); ++i)
      assert_true(isfinite(dense_get(&p[0], TRIAL_O, i)));
    dense_free(&p[0]);
    dense_free(&p[1]);
  }
  dense_free(&poison);
}

static void assert_right(const char *words, int64_t heads, int64_t seqlen_q, int64_t seqlen_k) {
  trial_options options = trial_of(words, 1, heads, seqlen_q, seqlen_k);
  assert_trial_right(&options);
}

static void b02_head_dimension_72_in_f16(void **state) {
  (void)state;
  assert_right("fwd cpu f16 d72", 16, 128, 128);
}

static void b44_dq_of_head_dimensions_between_tile_widths(void **state) {
  (void)state;
  assert_right("bwd cpu bf16 d72", 4, 128, 128);
  assert_right("bwd cpu bf16 d104", 4, 128, 128);
}

static void b53_values_wider_than_keys_and_narrower(void **state) {
  (void)state;
  assert_right("bwd cpu bf16 d128 v192 causal", 2, 100, 100);
  assert_right("bwd cpu bf16 d192 v128 causal", 2, 100, 100);
}

static void b56_backward_of_large_head_dimensions(void **state) {
  (void)state;
  assert_right("bwd cpu f16 d160", 2, 97, 97);
  assert_right("bwd cpu bf16 d192", 2, 97, 97);
}

/* Launches p with one field changed, which must be refused with nothing written. */
static void assert_refused(dense *p, const fa_args *args, const char *says) {
  memset(p->memory[TRIAL_O], 0x5a, dense_bytes(p, TRIAL_O));
  dense_upload(p);
  expect_refused(fa_forward(support_context(), args, NULL), FA_INVALID, says);
  dense_download(p, NULL);
  const unsigned char *o = p->memory[TRIAL_O];
  for (size_t i = 0; i < dense_bytes(p, TRIAL_O); ++i) assert_int_equal(o[i], 0x5a);
}

static void b55_b67_head_dimensions_that_are_none(void **state) {
  static const int32_t dims[] = {46, 4, 257, 264, 512, -8};
  dense p;
  (void)state;
  dense_create(&p, "fwd cpu bf16 d64", 1, 2, 5, 5);
  for (size_t i = 0; i < COUNT_OF(dims); ++i) {
    fa_args args = p.args;
    args.dim_qk = args.dim_v = dims[i];
    assert_refused(&p, &args, "dim_qk");
  }
  dense_free(&p);
}

static void b54_query_heads_that_do_not_divide(void **state) {
  static const int64_t heads[][2] = {{33, 2}, {3, 2}, {3, 0}, {2, 4}};
  dense p;
  (void)state;
  dense_create(&p, "fwd cpu bf16 d64", 1, 33, 5, 5);
  for (size_t i = 0; i < COUNT_OF(heads); ++i) {
    fa_args args = p.args;
    args.heads_q = heads[i][0];
    args.heads_kv = heads[i][1];
    assert_refused(&p, &args, "heads_q");
  }
  dense_free(&p);
}

/* ---- More than 32 bits ------------------------------------------------------------------- */

/* One key each: O = v, LSE = scale * q . k, dV = dO, dQ = dK = 0, in every entry. Small whole
   numbers make all of it exact. */
static void b05_thousands_of_entries_of_length_one(void **state) {
  const int64_t batch = 8200, heads = 16, dim = 128, count = batch * heads * dim;
  uint16_t values[8];
  dense one, p; /* every entry has the query and the key of one */
  (void)state;
  dense_create(&one, "bwd cpu bf16 d128", 1, heads, 1, 1);
  dense_create(&p, "bwd cpu bf16 d128", batch, heads, 1, 1);
  dense_fill_inputs(&one, closed_form, NULL);
  dense_upload(&one);
  p.args.q = one.args.q;
  p.args.k = one.args.k;
  p.args.q.stride_batch = p.args.k.stride_batch = 0;
  p.args.dout = p.args.v;
  uint16_t *v = p.memory[TRIAL_V];
  const uint16_t *dq = p.memory[TRIAL_DQ], *dk = p.memory[TRIAL_DK];
  const float *lse = p.memory[TRIAL_LSE];
  for (int i = 0; i < 8; ++i) storage_write(&values[i], i - 4, FA_BF16);
  for (int64_t i = 0; i < count; ++i) v[i] = values[(i ^ i / dim ^ i / (heads * dim)) % 8];
  dense_both(support_context(), &p);
  assert_memory_equal(p.memory[TRIAL_O], v, (size_t)count * 2);
  assert_memory_equal(p.memory[TRIAL_DV], v, (size_t)count * 2);
  for (int64_t i = 0; i < count; ++i)
    if ((dq[i] | dk[i]) & 0x7fff) fail_msg("dQ or dK %d is not 0", (int)i);
  for (int64_t i = 0; i < batch * heads; ++i) {
    double product = 0;
    for (int64_t c = 0; c < dim && i < heads; ++c)
      product += dense_at(&one, TRIAL_Q, 0, 0, i, c) * dense_at(&one, TRIAL_K, 0, 0, i, c);
    if (i < heads) assert_near("LSE", lse[i], product / sqrt(dim), on_target(1e-6, 1e-5));
    assert_near("LSE", lse[i], lse[i % heads], 0);
  }
  dense_free(&one);
  dense_free(&p);
}

/* Rows and batch entries so far apart that the second tile of 64 rows begins beyond 2^31 elements
   and the second entry beyond 2^32. Far tensors are columns of one memory: rows are long enough. */
enum { FAR_ROWS = 130, FAR_BATCH = 2 };
static const int64_t far_stride = (INT64_C(1) << 25) + 8;
static const size_t far_bytes = (size_t)FAR_BATCH * FAR_ROWS * ((INT64_C(1) << 25) + 8) * 2;

static void *far_memory(void) {
  void *memory;
  if (!on_gpu()) return sparse(far_bytes);
  if (fa_memory_alloc(&memory, support_context(), far_bytes) == FA_OK) return memory;
  print_message("skipped: %s\n", fa_error_message());
  skip();
  return NULL;
}

static void far_free(void *memory) {
  if (on_gpu())
    fa_memory_free(support_context(), memory);
  else
    munmap(memory, far_bytes);
}

/* Where a tensor of 16 bits lies in the far memory. */
static fa_tensor far_tensor(const dense *p, void *memory, trial_tensor tensor) {
  const int64_t columns_each = 4096;
  const view *shape = &p->shapes[tensor];
  assert_true(shape->stride[1] <= columns_each);
  return (fa_tensor){(uint16_t *)memory + tensor * columns_each, far_stride * FAR_ROWS, far_stride,
                     shape->extent[3]};
}

/* Copies a tensor between its dense memory and the far one. */
static void copy_far(dense *p, trial_tensor tensor, const fa_tensor *far, int to_far) {
  size_t row = (size_t)p->shapes[tensor].stride[1] * 2;
  for (int64_t i = 0; i < FAR_BATCH * FAR_ROWS; ++i) {
    char *near = (char *)p->memory[tensor] + (size_t)i * row;
    char *away = (char *)far->data + i * far_stride * 2;
    void *to = to_far ? away : near;
    expect_ok(fa_memory_copy(support_context(), to, to_far ? near : away, row, NULL));
  }
}

/* Every tensor of a backward problem far apart: the same bits as close together. */
static void b48_rows_beyond_32_bit_offsets(void **state) {
  static const trial_tensor tensors[] = {TRIAL_Q, TRIAL_K,  TRIAL_V,  TRIAL_DOUT,
                                         TRIAL_O, TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  const char *words = "bwd cpu bf16 d64 gqa2 causal det";
  dense near, away;
  (void)state;
  void *memory = far_memory();
  dense_create(&near, words, FAR_BATCH, 4, FAR_ROWS, FAR_ROWS);
  dense_create(&away, words, FAR_BATCH, 4, FAR_ROWS, FAR_ROWS);
  dense_fill_inputs(&near, dense_normal, &seed);
  dense_fill_inputs(&away, dense_normal, &seed);
  fa_tensor *args[] = {&away.args.q, &away.args.k,  &away.args.v,  &away.args.dout,
                       &away.args.o, &away.args.dq, &away.args.dk, &away.args.dv};
  for (size_t i = 0; i < COUNT_OF(tensors); ++i) {
    *args[i] = far_tensor(&away, memory, tensors[i]);
    if (tensors[i] <= TRIAL_DOUT) copy_far(&away, tensors[i], args[i], 1);
  }
  dense_both(support_context(), &near);
  dense_both(support_context(), &away);
  for (size_t i = 0; i < COUNT_OF(tensors); ++i) {
    if (tensors[i] > TRIAL_DOUT) copy_far(&away, tensors[i], args[i], 0);
    assert_same_bytes(&near, &away, tensors[i]);
  }
  far_free(memory);
  dense_free(&near);
  dense_free(&away);
}

/* D = rowsum(dO * O) of rows beyond 2^31 elements: 64 times 1 / 64. */
static void b12_preprocess_of_rows_beyond_32_bit_offsets(void **state) {
  const fa_kernel *kernel;
  float d[FAR_BATCH * 2 * FAR_ROWS];
  size_t bytes;
  dense p;
  (void)state;
  dense_create(&p, "pre cpu f16 d64", FAR_BATCH, 2, FAR_ROWS, 1);
  void *memory = far_memory();
  dense_fill(&p, TRIAL_O, constant, &(double){1});
  dense_fill(&p, TRIAL_DOUT, constant, &(double){1.0 / 64});
  p.args.o = far_tensor(&p, memory, TRIAL_O);
  p.args.dout = far_tensor(&p, memory, TRIAL_DOUT);
  copy_far(&p, TRIAL_O, &p.args.o, 1);
  copy_far(&p, TRIAL_DOUT, &p.args.dout, 1);
  p.args.dtype = p.args.dim_qk = p.args.dim_v = p.args.target = 0;
  expect_ok(fa_get_kernel(&kernel, support_context(), &p.spec));
  expect_ok(fa_workspace_size(&bytes, kernel, &p.args));
  expect_ok(fa_memory_alloc(&p.args.workspace, support_context(), bytes));
  p.args.workspace_size = bytes;
  expect_ok(fa_launch(kernel, &p.args, NULL));
  expect_ok(fa_memory_copy(support_context(), d, p.args.workspace, sizeof d, NULL));
  for (size_t i = 0; i < COUNT_OF(d); ++i) assert_near("D", d[i], 1, 0);
  fa_memory_free(support_context(), p.args.workspace);
  far_free(memory);
  dense_free(&p);
}

/* All heads, or all entries, read the same inputs, so that all must write the same outputs. */
static void assert_all_repeat(const char *words, int64_t batch, int64_t heads, int64_t seqlen) {
  static const trial_tensor outputs[] = {TRIAL_O, TRIAL_LSE, TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  dense p, one;
  dense_create(&one, words, 1, 1, seqlen, seqlen);
  dense_create(&p, words, batch, heads, seqlen, seqlen);
  dense_fill_inputs(&one, dense_normal, &seed);
  p.args.q = one.args.q; /* which the launch on one copies there */
  p.args.k = one.args.k;
  p.args.v = one.args.v;
  p.args.dout = one.args.dout;
  fa_tensor *inputs[] = {&p.args.q, &p.args.k, &p.args.v, &p.args.dout};
  for (size_t i = 0; i < COUNT_OF(inputs); ++i)
    inputs[i]->stride_batch = inputs[i]->stride_head = 0;
  dense_both(support_context(), &one);
  dense_both(support_context(), &p);
  for (size_t n = 0; n < COUNT_OF(outputs); ++n) {
    const int64_t *stride = p.shapes[outputs[n]].stride;
    size_t bytes = storage_bytes(p.shapes[outputs[n]].dtype);
    size_t row = (size_t)p.shapes[outputs[n]].extent[3] * bytes;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < seqlen; ++i) {
          int64_t at = b * stride[0] + h * stride[2] + i * stride[1];
          const char *got = (char *)p.memory[outputs[n]] + (size_t)at * bytes;
          if (memcmp(got, (char *)one.memory[outputs[n]] + (size_t)i * row, row))
            fail_msg("%s of batch %d head %d row %d differs", trial_tensor_name(outputs[n]), (int)b,
                     (int)h, (int)i);
        }
  }
  dense_free(&p);
  dense_free(&one);
}

static void b45_more_heads_than_16_bits(void **state) {
  (void)state;
  assert_all_repeat("bwd cpu f32 d16", 1, 65537, 3);
}

static void b45_more_entries_than_16_bits(void **state) {
  (void)state;
  assert_all_repeat("bwd cpu f32 d16", 65537, 1, 2);
}

/* More than 65536 tiles of 64 rows, all the same query on one key: O = v, dK = 0. */
static void b45_more_tiles_than_16_bits(void **state) {
  const int64_t rows = 64 * 65536 + 1;
  dense p;
  (void)state;
  dense_create(&p, "fwd cpu bf16 d8", 1, 1, rows, 1);
  dense_fill(&p, TRIAL_K, closed_form, NULL);
  dense_fill(&p, TRIAL_V, closed_form, NULL);
  p.args.q.stride_seq = 0;
  dense_forward(support_context(), &p);
  const uint16_t *o = p.memory[TRIAL_O], *v = p.memory[TRIAL_V];
  for (int64_t i = 0; i < rows * 8; ++i)
    if (o[i] != v[i % 8]) fail_msg("row %d is wrong", (int)(i / 8));
  const float *lse = p.memory[TRIAL_LSE];
  for (int64_t i = 0; i < rows; ++i) assert_near("LSE", lse[i], lse[0], 0);
  dense_free(&p);
}

/* ---- Layouts ----------------------------------------------------------------------------- */

/* dO of all ones as a sum gives it: one element that every stride of 0 repeats. */
static void b46_dout_with_strides_of_zero(void **state) {
  dense dense_ones, repeated;
  (void)state;
  dense_create(&dense_ones, "bwd cpu bf16 d8 causal", 1, 2, 5, 5);
  dense_create(&repeated, "bwd cpu bf16 d8 causal", 1, 2, 5, 5);
  dense_fill_inputs(&dense_ones, dense_normal, &seed);
  dense_fill_inputs(&repeated, dense_normal, &seed);
  dense_fill(&dense_ones, TRIAL_DOUT, constant, &(double){1});
  dense_fill(&repeated, TRIAL_DOUT, constant, &(double){1});
  repeated.args.dout.stride_batch = 0;
  repeated.args.dout.stride_seq = 0;
  repeated.args.dout.stride_head = 0;
  dense_both(support_context(), &dense_ones);
  dense_both(support_context(), &repeated);
  for (int i = TRIAL_O; i <= TRIAL_DV; ++i) assert_same_bytes(&dense_ones, &repeated, i);
  dense_free(&dense_ones);
  dense_free(&repeated);
}

static void assert_layout_same(const char *words, int64_t heads, int64_t seqlen,
                               trial_layout layout) {
  trial_options options = trial_of(words, 2, heads, seqlen, seqlen);
  trial_result dense_result, other;
  run_trial(&dense_result, &options);
  options.layout = layout;
  run_trial(&other, &options);
  assert_result_right(&options, &other);
  assert_same_bits(&dense_result, &other);
  trial_free(&dense_result);
  trial_free(&other);
}

static void b47_views_of_one_packed_tensor(void **state) {
  (void)state;
  assert_layout_same("bwd cpu f16 d64 gqa16 causal", 16, 150, TRIAL_PACKED);
}

/* Addresses one element off, and strides that are multiples of nothing. */
static void b55_addresses_and_strides_without_alignment(void **state) {
  (void)state;
  assert_layout_same("bwd cpu bf16 d40 gqa2", 4, 70, TRIAL_WIDE);
  assert_layout_same("bwd cpu f16 d64 causal", 2, 70, TRIAL_WIDE);
}

/* ---- Lengths of 0, and what lies behind the last row ------------------------------------- */

static void b49_a_batch_of_none(void **state) {
  (void)state;
  for (int causal = 0; causal < 2; ++causal) {
    trial_options options =
        trial_of(causal ? "bwd cpu f16 d64 causal" : "bwd cpu f16 d64", 0, 10, 3952, 16);
    assert_trial_right(&options);
  }
}

/* The sequences of a packed batch as calls of their own. */
static void b50_decode_next_to_empty_sequences(void **state) {
  static const int64_t lengths[][2] = {{0, 0}, {1, 3}, {0, 0}, {1, 5}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(lengths); ++i)
    assert_right("bwd cpu bf16 d64 gqa3 causal", 9, lengths[i][0], lengths[i][1]);
}

static void b15_no_queries_on_many_keys(void **state) {
  static const int64_t lengths[][2] = {{0, 253}, {120, 174}, {84, 84}, {0, 307}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(lengths); ++i) {
    trial_options options =
        trial_of("bwd cpu bf16 d256 gqa4 causal", 1, 4, lengths[i][0], lengths[i][1]);
    trial_result result;
    run_trial(&result, &options);
    assert_result_right(&options, &result);
    for (int64_t j = 0; j < lengths[i][1] && lengths[i][0] == 0; ++j) {
      assert_near("dK", got_at(&result, TRIAL_DK, 0, j, 0, 7), 0, 0);
      assert_near("dV", got_at(&result, TRIAL_DV, 0, j, 0, 7), 0, 0);
    }
    trial_free(&result);
  }
}

/* A copy of a tensor whose last byte is the last before a page that cannot be touched. */
static void *at_page_end(const void *from, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page * page;
  char *memory = sparse(pages + page);
  assert_int_equal(mprotect(memory + pages, page, PROT_NONE), 0);
  memcpy(memory + pages - bytes, from, bytes);
  return memory + pages - bytes;
}

/* One element read or written past any tensor ends the program. */
static void b51_nothing_is_touched_past_the_last_element(void **state) {
  static const int64_t lengths[][2] = {{1, 1}, {65, 129}, {63, 31}};
  static const char *const words[] = {"bwd cpu bf16 d40 v24 gqa2 causal", "bwd cpu f16 d72",
                                      "bwd cpu f32 d8"};
  (void)state;
  cpu_only("it has no pages to protect; compute-sanitizer finds the same");
  for (size_t n = 0; n < COUNT_OF(words) * COUNT_OF(lengths); ++n) {
    dense p, edge;
    const int64_t *length = lengths[n % COUNT_OF(lengths)];
    dense_create(&p, words[n / COUNT_OF(lengths)], 2, 2, length[0], length[1]);
    dense_fill_inputs(&p, dense_normal, &seed);
    edge = p;
    fa_tensor *args[] = {
        [TRIAL_Q] = &edge.args.q,       [TRIAL_K] = &edge.args.k,  [TRIAL_V] = &edge.args.v,
        [TRIAL_DOUT] = &edge.args.dout, [TRIAL_O] = &edge.args.o,  [TRIAL_DQ] = &edge.args.dq,
        [TRIAL_DK] = &edge.args.dk,     [TRIAL_DV] = &edge.args.dv};
    for (int i = TRIAL_Q; i <= TRIAL_DV; ++i) {
      edge.memory[i] = at_page_end(p.memory[i], dense_bytes(&p, i));
      if (i < (int)COUNT_OF(args) && args[i]) args[i]->data = edge.memory[i];
    }
    edge.args.lse = edge.memory[TRIAL_LSE];
    edge.args.dlse = edge.memory[TRIAL_DLSE];
    p.args.dlse = p.memory[TRIAL_DLSE];
    dense_both(support_context(), &edge);
    dense_both(support_context(), &p);
    for (int i = TRIAL_O; i <= TRIAL_DV; ++i) assert_same_bytes(&p, &edge, i);
    dense_free(&p);
  }
}

/* Rows behind seqlen_q in a longer buffer keep what they held. */
static void b66_rows_behind_the_last_stay_untouched(void **state) {
  static const trial_tensor outputs[] = {TRIAL_O, TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  dense p;
  (void)state;
  dense_create(&p, "bwd cpu bf16 d64", 1, 2, 100, 100);
  dense_fill_inputs(&p, dense_normal, &seed);
  for (size_t n = 0; n < COUNT_OF(outputs); ++n)
    memset(p.memory[outputs[n]], 0x5a, dense_bytes(&p, outputs[n]));
  p.args.seqlen_q = p.args.seqlen_k = 70;
  dense_both(support_context(), &p);
  for (size_t n = 0; n < COUNT_OF(outputs); ++n) {
    const unsigned char *bytes = p.memory[outputs[n]];
    for (size_t i = 70 * 128 * 2; i < dense_bytes(&p, outputs[n]); ++i)
      if (bytes[i] != 0x5a) fail_msg("%s: byte %d", trial_tensor_name(outputs[n]), (int)i);
  }
  dense_free(&p);
}

static void b52_workspace_full_of_nan(void **state) {
  static const int64_t lengths[] = {1, 63, 70, 129};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(lengths); ++i) {
    trial_options options = trial_of("bwd cpu bf16 d64 gqa4 causal", 2, 8, lengths[i], lengths[i]);
    trial_result poisoned, clean;
    run_trial(&poisoned, &options);
    options.poison = 0;
    run_trial(&clean, &options);
    assert_result_right(&options, &clean);
    assert_same_bits(&poisoned, &clean);
    trial_free(&poisoned);
    trial_free(&clean);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(b02_every_head_dimension_is_repeatable_after_nan),
      cmocka_unit_test(b02_head_dimension_72_in_f16),
      cmocka_unit_test(b05_thousands_of_entries_of_length_one),
      cmocka_unit_test(b12_preprocess_of_rows_beyond_32_bit_offsets),
      cmocka_unit_test(b15_no_queries_on_many_keys),
      cmocka_unit_test(b44_dq_of_head_dimensions_between_tile_widths),
      cmocka_unit_test(b45_more_heads_than_16_bits),
      cmocka_unit_test(b45_more_entries_than_16_bits),
      cmocka_unit_test(b45_more_tiles_than_16_bits),
      cmocka_unit_test(b46_dout_with_strides_of_zero),
      cmocka_unit_test(b47_views_of_one_packed_tensor),
      cmocka_unit_test(b48_rows_beyond_32_bit_offsets),
      cmocka_unit_test(b49_a_batch_of_none),
      cmocka_unit_test(b50_decode_next_to_empty_sequences),
      cmocka_unit_test(b51_nothing_is_touched_past_the_last_element),
      cmocka_unit_test(b52_workspace_full_of_nan),
      cmocka_unit_test(b53_values_wider_than_keys_and_narrower),
      cmocka_unit_test(b54_query_heads_that_do_not_divide),
      cmocka_unit_test(b55_addresses_and_strides_without_alignment),
      cmocka_unit_test(b55_b67_head_dimensions_that_are_none),
      cmocka_unit_test(b56_backward_of_large_head_dimensions),
      cmocka_unit_test(b66_rows_behind_the_last_stay_untouched),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
