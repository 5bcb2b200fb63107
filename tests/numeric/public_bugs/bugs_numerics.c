/* bugs_numerics.c: wrong values that users of other attention kernels reported, each as the
   smallest case with its known answer. tests/public_bugs.md has the reports. */
#include "../dense.h"

#include <math.h>
#include <string.h>

static const uint64_t seed = 17;

/* ---- Data with closed-form answers ------------------------------------------------------- */

/* All products q . k are *with: one component carries them. V and dO are normal. */
static double equal_products(const void *with, trial_tensor tensor, const int64_t at[4]) {
  if (tensor == TRIAL_Q) return at[3] == 0;
  if (tensor == TRIAL_K) return at[3] == 0 ? *(const double *)with : 0;
  return tensor == TRIAL_DLSE ? 0 : dense_normal(&seed, tensor, at);
}

/* q = 0, v[j] = j in column 0, dO = 1 in column 0: O counts. */
static double counting(const void *with, trial_tensor tensor, const int64_t at[4]) {
  (void)with;
  if (tensor == TRIAL_V) return at[3] == 0 ? (double)at[1] : 0;
  if (tensor == TRIAL_DOUT) return at[3] == 0;
  return tensor == TRIAL_K ? 1 : 0;
}

static double constant(const void *with, trial_tensor tensor, const int64_t at[4]) {
  (void)tensor, (void)at;
  return *(const double *)with;
}

/* Three times normal, dO = 1. */
static double wide_normal(const void *with, trial_tensor tensor, const int64_t at[4]) {
  if (tensor == TRIAL_DOUT) return 1;
  return tensor == TRIAL_DLSE ? 0 : 3 * dense_normal(with, tensor, at);
}

/* The mean of V over the keys from first to last, in the column. */
static double mean_value(const dense *p, int64_t first, int64_t last, int64_t head,
                         int64_t column) {
  double sum = 0;
  for (int64_t j = first; j <= last; ++j) sum += dense_at(p, TRIAL_V, 0, j, head, column);
  return sum / (double)(last - first + 1);
}

/* ---- Very negative scores ---------------------------------------------------------------- */

/* Every score is -120, so that exp(0 - LSE) would overflow: a padded key that is scored 0 shows. */
static void assert_score_minus_120(const char *words, int64_t seqlen, int causal) {
  const double product = -960;
  double dv = 0; /* of key i in column 42: the sum over the rows that see it of dO / keys seen */
  dense p;
  dense_create(&p, words, 1, 1, seqlen, seqlen);
  dense_fill_inputs(&p, equal_products, &product);
  dense_both(support_context(), &p);
  for (int64_t i = seqlen - 1; i >= 0; --i) {
    int64_t last = causal ? i : seqlen - 1;
    double lse = -120 + log((double)last + 1);
    assert_near("LSE", dense_at(&p, TRIAL_LSE, 0, i, 0, 0), lse, on_target(2e-5, 4e-5));
    assert_near("O", dense_at(&p, TRIAL_O, 0, i, 0, 42), mean_value(&p, 0, last, 0, 42), 0.012);
    dv += dense_at(&p, TRIAL_DOUT, 0, i, 0, 42) / ((double)last + 1);
    if (causal) assert_near("dV", dense_at(&p, TRIAL_DV, 0, i, 0, 42), dv, 0.01);
  }
  for (int64_t j = 0; j < seqlen && !causal; ++j)
    assert_near("dV", dense_at(&p, TRIAL_DV, 0, j, 0, 42), dv, 0.01);
  assert_all_near(&p, TRIAL_DQ, 0, 1); /* the key, 120, times what rounding O leaves of 0 */
  for (int64_t i = 0; i < dense_count(&p, TRIAL_DK); ++i)
    assert_true(isfinite(dense_get(&p, TRIAL_DK, i)));
  dense_free(&p);
}

static void b01_scores_far_below_zero_on_a_half_full_tile(void **state) {
  static const int64_t lengths[] = {64, 192, 320, 704, 70};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(lengths); ++i) {
    assert_score_minus_120("bwd cpu bf16 d64", lengths[i], 0);
    assert_score_minus_120("bwd cpu f16 d64 causal", lengths[i], 1);
  }
}

/* The values of the report, to more digits than 16 bits show. */
static void b01_values_in_f32(void **state) {
  const double product = -960;
  dense p;
  (void)state;
  cpu_only("it has no f32");
  dense_create(&p, "bwd cpu f32 d64", 1, 1, 192, 192);
  dense_fill_inputs(&p, equal_products, &product);
  dense_both(support_context(), &p);
  double sum = 0;
  for (int64_t i = 0; i < 192; ++i) {
    assert_near("LSE", dense_at(&p, TRIAL_LSE, 0, i, 0, 0), -114.742505, 1e-5);
    assert_near("O", dense_at(&p, TRIAL_O, 0, i, 0, 5), mean_value(&p, 0, 191, 0, 5), 1e-5);
    sum += dense_at(&p, TRIAL_DOUT, 0, i, 0, 5);
  }
  for (int64_t j = 0; j < 192; ++j)
    assert_near("dV", dense_at(&p, TRIAL_DV, 0, j, 0, 5), sum / 192, 1e-5);
  assert_all_near(&p, TRIAL_DQ, 0, 2e-3); /* 120 sums of 192 terms of either sign */
  dense_free(&p);
}

/* Whatever tile comes first, what it hides must not become the running maximum. */
static void b03_first_tile_hidden_and_all_scores_negative(void **state) {
  const double product = -800;
  dense p;
  (void)state;
  dense_create(&p, "fwd cpu f32 d64 gqa7 causal", 1, 14, 88, 448);
  dense_fill_inputs(&p, equal_products, &product);
  dense_forward(support_context(), &p);
  for (int64_t h = 0; h < 14; ++h)
    for (int64_t i = 0; i < 88; i += 29) {
      double lse = -100 + log((double)i + 361);
      assert_near("LSE", dense_at(&p, TRIAL_LSE, 0, i, h, 0), lse, on_target(2e-5, 4e-5));
      assert_near("O", dense_at(&p, TRIAL_O, 0, i, h, 3), mean_value(&p, 0, i + 360, h / 7, 3),
                  on_target(1e-5, 5e-4));
    }
  dense_free(&p);
}

/* ---- Heads ------------------------------------------------------------------------------- */

static void assert_checksums(const char *words, const double wanted[5]) {
  trial_options options = trial_of(words, 1, 6, 3, 5);
  trial_result result;
  options.fill = closed_form;
  run_trial(&result, &options);
  assert_result_right(&options, &result);
  for (int i = 0; i < 5; ++i) {
    const trial_output *output = &result.outputs[i];
    double sum = checksum(output->got, output->extent, output->stride);
    assert_near(trial_tensor_name(output->tensor), sum, wanted[i], on_target(5e-4, 0.2));
  }
  trial_free(&result);
}

static void b07_group_of_three_on_two_kv_heads(void **state) {
  static const double all[] = {-67.907873, 277.657811, -10.668420, -0.055490, 37.992040};
  static const double causal[] = {-149.684001, 237.109209, -2.549808, -0.146510, 31.990733};
  (void)state;
  assert_checksums("bwd cpu f32 d8 gqa3", all);
  assert_checksums("bwd cpu f32 d8 gqa3 causal", causal);
}

/* kv head = h / group: query heads next to each other share one, and LSE is by query head. */
static void b31_neighbouring_heads_share_a_kv_head(void **state) {
  dense p;
  (void)state;
  dense_create(&p, "fwd cpu f16 d128 gqa8", 1, 16, 64, 64);
  dense_fill_inputs(&p, dense_normal, &seed);
  dense_forward(support_context(), &p);
  for (int64_t h = 0; h < 16; ++h) {
    double sum = 0;
    for (int64_t j = 0; j < 64; ++j) {
      double s = 0;
      for (int64_t c = 0; c < 128; ++c)
        s += dense_at(&p, TRIAL_Q, 0, 9, h, c) * dense_at(&p, TRIAL_K, 0, j, h / 8, c);
      sum += exp(s / sqrt(128));
    }
    assert_near("LSE", dense_at(&p, TRIAL_LSE, 0, 9, h, 0), log(sum), on_target(1e-5, 2e-5));
  }
  dense_free(&p);
}

/* ---- Few keys, few rows ------------------------------------------------------------------ */

/* Only the last query sees the one key. */
static void b08_many_queries_on_one_key(void **state) {
  static const int64_t lengths[] = {76, 34, 146};
  (void)state;
  for (size_t n = 0; n < COUNT_OF(lengths); ++n) {
    dense p;
    dense_create(&p, "bwd cpu f16 d32 causal", 1, 1, lengths[n], 1);
    dense_fill_inputs(&p, wide_normal, &seed);
    dense_both(support_context(), &p);
    for (int64_t i = 0; i < lengths[n]; ++i)
      for (int64_t c = 0; c < 32; ++c) {
        double v = i == lengths[n] - 1 ? dense_at(&p, TRIAL_V, 0, 0, 0, c) : 0;
        assert_near("O", dense_at(&p, TRIAL_O, 0, i, 0, c), v, 0);
      }
    assert_all_near(&p, TRIAL_DQ, 0, 1e-5);
    assert_all_near(&p, TRIAL_DK, 0, 1e-5);
    assert_all_near(&p, TRIAL_DV, 1, 0);
    dense_free(&p);
  }
}

static void b25_one_query_and_one_key(void **state) {
  dense p;
  (void)state;
  dense_create(&p, "bwd cpu f16 d16", 1, 1, 1, 1);
  dense_fill_inputs(&p, wide_normal, &(uint64_t){352});
  dense_both(support_context(), &p);
  for (int64_t c = 0; c < 16; ++c)
    assert_near("O", dense_get(&p, TRIAL_O, c), dense_get(&p, TRIAL_V, c), 0);
  assert_all_near(&p, TRIAL_DQ, 0, 1e-5);
  assert_all_near(&p, TRIAL_DK, 0, 1e-5);
  assert_all_near(&p, TRIAL_DV, 1, 0);
  dense_free(&p);
}

/* Scores of 1.4e11: the largest one minus itself must be exactly 0. */
static void b26_huge_equal_inputs(void **state) {
  const double huge = 133120;
  (void)state;
  for (int64_t keys = 1; keys <= 3; keys += 2) {
    dense p;
    dense_create(&p, "fwd cpu bf16 d64", 1, 1, 1, keys);
    dense_fill_inputs(&p, constant, &huge);
    dense_forward(support_context(), &p);
    assert_all_near(&p, TRIAL_O, huge, 0);
    assert_all_near(&p, TRIAL_LSE, 1.41767475e11, 2e4);
    dense_free(&p);
  }
}

/* ---- Masks ------------------------------------------------------------------------------- */

static void assert_counts(const char *words, int64_t seqlen_q, int64_t seqlen_k, const double *o,
                          const double *count) {
  dense p;
  dense_create(&p, words, 1, 1, seqlen_q, seqlen_k);
  dense_fill_inputs(&p, counting, NULL);
  dense_both(support_context(), &p);
  for (int64_t i = 0; i < seqlen_q; ++i) {
    assert_near("O", dense_at(&p, TRIAL_O, 0, i, 0, 0), o[i], 1e-6);
    assert_near("keys", exp(dense_at(&p, TRIAL_LSE, 0, i, 0, 0)), count[i], on_target(1e-6, 1e-5));
  }
  for (int64_t j = 0; j < seqlen_k; ++j) {
    double dv =
        0; /* row i gives 1 / count to each key it sees: those up to i + seqlen_k - seqlen_q */
    for (int64_t i = 0; i < seqlen_q; ++i)
      if (j <= i + seqlen_k - seqlen_q) dv += 1 / count[i];
    assert_near("dV", dense_at(&p, TRIAL_DV, 0, j, 0, 0), dv, on_target(1e-6, 1e-3));
  }
  dense_free(&p);
}

static void b13_causal_is_aligned_to_the_bottom_right(void **state) {
  (void)state;
  assert_counts("bwd cpu f32 d8 causal", 4, 2, (double[]){0, 0, 0, 0.5}, (double[]){0, 0, 1, 2});
  assert_counts("bwd cpu f32 d8 causal", 2, 5, (double[]){1.5, 2}, (double[]){4, 5});
}

/* The same at every length around the tile edges. */
static void b13_counts_across_tiles(void **state) {
  static const int64_t lengths[][2] = {{130, 70}, {70, 130}, {129, 129}, {1, 65}, {65, 1}};
  double o[130], count[130];
  (void)state;
  for (size_t n = 0; n < COUNT_OF(lengths); ++n) {
    for (int64_t i = 0; i < lengths[n][0]; ++i) {
      count[i] = fmax(0, (double)(i + 1 + lengths[n][1] - lengths[n][0]));
      o[i] = count[i] > 0 ? (count[i] - 1) / 2 : 0;
    }
    dense p;
    dense_create(&p, "fwd cpu f32 d8 causal", 1, 1, lengths[n][0], lengths[n][1]);
    dense_fill_inputs(&p, counting, NULL);
    dense_forward(support_context(), &p);
    for (int64_t i = 0; i < lengths[n][0]; ++i) {
      assert_near("O", dense_at(&p, TRIAL_O, 0, i, 0, 0), o[i], on_target(3e-5, 0.02));
      assert_near("keys", exp(dense_at(&p, TRIAL_LSE, 0, i, 0, 0)), count[i],
                  on_target(1e-4, 1e-3));
    }
    dense_free(&p);
  }
}

/* The left bound belongs to the window: 64 back and the query itself are 65 keys. */
static void b28_a_window_counts_both_its_ends(void **state) {
  dense p;
  (void)state;
  dense_create(&p, "fwd cpu f32 d8 causal behind", 1, 1, 200, 200);
  dense_fill_inputs(&p, counting, NULL);
  dense_forward(support_context(), &p);
  for (int64_t i = 0; i < 200; ++i) {
    double first = i < 64 ? 0 : (double)i - 64, count = (double)i - first + 1;
    assert_near("O", dense_at(&p, TRIAL_O, 0, i, 0, 0), first + (count - 1) / 2,
                on_target(5e-5, 0.07));
    assert_near("keys", exp(dense_at(&p, TRIAL_LSE, 0, i, 0, 0)), count, on_target(1e-4, 1e-3));
  }
  dense_free(&p);
}

/* A bias that differs by a constant in each row moves LSE and nothing else. */
static void b32_a_bias_by_the_key_moves_lse_by_the_query(void **state) {
  trial_options options = trial_of("bwd cpu f32 d8 causal slope", 1, 2, 40, 50);
  dense p;
  (void)state;
  assert_trial_right(&options);
  dense_create(&p, "fwd cpu f32 d8 causal slope", 1, 1, 4, 6);
  dense_fill_inputs(&p, counting, NULL);
  dense_forward(support_context(), &p);
  for (int64_t i = 0; i < 4; ++i) {
    double relative = 0, o = 0; /* sums with the bias (k - q) / 2 */
    int64_t place = i + 2;
    for (int64_t j = 0; j <= place; ++j) {
      relative += exp(0.5 * (double)(j - place));
      o += exp(0.5 * (double)(j - place)) * (double)j;
    }
    double lse = log(relative) + 0.5 * (double)place;
    assert_near("O", dense_at(&p, TRIAL_O, 0, i, 0, 0), o / relative, on_target(1e-6, 5e-3));
    assert_near("LSE", dense_at(&p, TRIAL_LSE, 0, i, 0, 0), lse, on_target(1e-6, 1e-5));
  }
  dense_free(&p);
}

/* ---- Rows without keys, merging, poison -------------------------------------------------- */

/* Joins the parts of a row whose keys were split in two, in double. */
static double merged(double o_a, double lse_a, double o_b, double lse_b) {
  double max = fmax(lse_a, lse_b);
  double a = exp(lse_a - max), b = exp(lse_b - max);
  return (a * o_a + b * o_b) / (a + b);
}

/* LSE = -inf is what lets a part without keys drop out of a merge. */
static void b27_parts_of_a_row_merge_also_when_one_is_empty(void **state) {
  static const int64_t splits[] = {0, 1, 30, 64, 90};
  dense whole;
  (void)state;
  dense_create(&whole, "fwd cpu f32 d40", 1, 2, 5, 90);
  dense_fill_inputs(&whole, dense_normal, &seed);
  dense_forward(support_context(), &whole);
  for (size_t n = 0; n < COUNT_OF(splits); ++n) {
    dense parts[2];
    for (int side = 0; side < 2; ++side) {
      dense *p = &parts[side];
      dense_create(p, "fwd cpu f32 d40", 1, 2, 5, side ? 90 - splits[n] : splits[n]);
      p->args.q = whole.args.q;
      p->args.k = whole.args.k;
      p->args.v = whole.args.v;
      p->args.k.data = dense_address(&whole, TRIAL_K, side ? splits[n] * 80 : 0);
      p->args.v.data = dense_address(&whole, TRIAL_V, side ? splits[n] * 80 : 0);
      dense_forward(support_context(), p);
    }
    for (int64_t i = 0; i < dense_count(&whole, TRIAL_O); ++i) {
      int64_t row = i / 80 + i / 40 % 2 * 5; /* LSE is by head, then row */
      double o = merged(dense_get(&parts[0], TRIAL_O, i), dense_get(&parts[0], TRIAL_LSE, row),
                        dense_get(&parts[1], TRIAL_O, i), dense_get(&parts[1], TRIAL_LSE, row));
      assert_near("merged O", o, dense_get(&whole, TRIAL_O, i), on_target(2e-6, 2e-3));
    }
    if (splits[n] == 0) assert_all_near(&parts[0], TRIAL_LSE, -INFINITY, 0);
    dense_free(&parts[0]);
    dense_free(&parts[1]);
  }
  dense_free(&whole);
}

/* K and V have room for 128 keys; what stands behind the used ones is NaN, or 0. */
static void b30_unused_rows_may_hold_anything(void **state) {
  static const int64_t lengths[] = {32, 64, 96, 48, 1, 127};
  (void)state;
  for (size_t n = 0; n < COUNT_OF(lengths); ++n) {
    dense p[2];
    for (int side = 0; side < 2; ++side) {
      dense_create(&p[side], "bwd cpu bf16 d64", 1, 8, 1, 128);
      dense_fill_inputs(&p[side], dense_normal, &seed);
      for (int64_t i = lengths[n] * 512; i < dense_count(&p[side], TRIAL_V); ++i) {
        dense_set(&p[side], TRIAL_K, i, side ? NAN : 0);
        dense_set(&p[side], TRIAL_V, i, side ? NAN : 0);
      }
      p[side].args.seqlen_k = lengths[n];
      dense_both(support_context(), &p[side]);
    }
    for (int i = TRIAL_O; i <= TRIAL_DV; ++i) assert_same_bytes(&p[0], &p[1], i);
    dense_free(&p[0]);
    dense_free(&p[1]);
  }
}

/* A launch on NaN leaves NaN in everything on the way; the next launch must not find any. */
static void leave_nan_behind(fa_context *context) {
  dense p;
  dense_create(&p, "bwd cpu bf16 d64", 1, 4, 128, 128);
  dense_fill_inputs(&p, constant, &(double){NAN});
  dense_both(context, &p);
  assert_true(isnan(dense_get(&p, TRIAL_DK, 0)));
  dense_free(&p);
}

static void b41_an_earlier_launch_leaves_nothing_behind(void **state) {
  fa_context *fresh = support_new_context(2);
  (void)state;
  for (int64_t keys = 1; keys < 128; keys += 3) {
    dense clean, after;
    dense_create(&clean, "bwd cpu bf16 d64", 1, 2, 5, keys);
    dense_create(&after, "bwd cpu bf16 d64", 1, 2, 5, keys);
    dense_fill_inputs(&clean, dense_normal, &seed);
    dense_fill_inputs(&after, dense_normal, &seed);
    dense_both(fresh, &clean);
    leave_nan_behind(support_context());
    dense_both(support_context(), &after);
    for (int i = TRIAL_O; i <= TRIAL_DV; ++i) assert_same_bytes(&clean, &after, i);
    dense_free(&clean);
    dense_free(&after);
  }
  fa_context_destroy(fresh);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(b01_scores_far_below_zero_on_a_half_full_tile),
      cmocka_unit_test(b01_values_in_f32),
      cmocka_unit_test(b03_first_tile_hidden_and_all_scores_negative),
      cmocka_unit_test(b07_group_of_three_on_two_kv_heads),
      cmocka_unit_test(b08_many_queries_on_one_key),
      cmocka_unit_test(b13_causal_is_aligned_to_the_bottom_right),
      cmocka_unit_test(b13_counts_across_tiles),
      cmocka_unit_test(b25_one_query_and_one_key),
      cmocka_unit_test(b26_huge_equal_inputs),
      cmocka_unit_test(b27_parts_of_a_row_merge_also_when_one_is_empty),
      cmocka_unit_test(b28_a_window_counts_both_its_ends),
      cmocka_unit_test(b30_unused_rows_may_hold_anything),
      cmocka_unit_test(b31_neighbouring_heads_share_a_kv_head),
      cmocka_unit_test(b32_a_bias_by_the_key_moves_lse_by_the_query),
      cmocka_unit_test(b41_an_earlier_launch_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
