/* test_reference.c: the float64 reference against values that are known without it: closed forms,
   counted keys, finite differences. */
#include "support.h"

#include "runtime/cli/random.h"
#include "runtime/cli/reference.h"

#include <math.h>
#include <string.h>

enum { ROOM = 8192 };

/* One problem with its tensors and results; in.q and so on point into it. */
typedef struct study {
  reference_problem in;
  double q[ROOM], k[ROOM], v[ROOM], dout[ROOM], dlse[ROOM];
  double o[ROOM], lse[ROOM], dq[ROOM], dk[ROOM], dv[ROOM];
} study;

static study s;

static int64_t position(const cli_pair *pair) {
  return pair->row + s.in.seqlen_k - s.in.seqlen_q;
}

static int causal(const void *with, const cli_pair *pair) {
  (void)with;
  return pair->key <= position(pair);
}

/* Keys from two places before the query to the query. */
static int window(const void *with, const cli_pair *pair) {
  (void)with;
  return pair->key <= position(pair) && pair->key >= position(pair) - 2;
}

static double softcap(const void *with, const cli_pair *pair, double score, double *derivative) {
  const double cap = 2, t = tanh(score / cap);
  (void)with, (void)pair;
  *derivative = 1 - t * t;
  return cap * t;
}

static double hide_odd_keys(const void *with, const cli_pair *pair, double score,
                            double *derivative) {
  (void)with;
  *derivative = 1;
  return pair->key % 2 ? -INFINITY : score;
}

/* ---- Setting up -------------------------------------------------------------------------- */

static void fill(double *values, trial_tensor tensor, int64_t seqlen, int64_t heads, int64_t dim,
                 trial_fill value) {
  int64_t at[4];
  for (at[0] = 0; at[0] < s.in.batch; ++at[0])
    for (at[1] = 0; at[1] < seqlen; ++at[1])
      for (at[2] = 0; at[2] < heads; ++at[2])
        for (at[3] = 0; at[3] < dim; ++at[3]) *values++ = value(NULL, tensor, at);
}

static double normal(const void *with, trial_tensor tensor, const int64_t at[4]) {
  (void)with;
  return random_normal(11, tensor, at);
}

/* All zero but the pointers; sizes are heads of q and kv, lengths of q and k, dims of qk and v. */
static void begin(int64_t batch, const int64_t heads[2], const int64_t seqlens[2],
                  const int64_t dims[2]) {
  memset(&s, 0, sizeof s);
  s.in.batch = batch;
  s.in.heads_q = heads[0];
  s.in.heads_kv = heads[1];
  s.in.seqlen_q = seqlens[0];
  s.in.seqlen_k = seqlens[1];
  s.in.dim_qk = dims[0];
  s.in.dim_v = dims[1];
  s.in.softmax_scale = 1 / sqrt((double)dims[0]);
  s.in.q = s.q;
  s.in.k = s.k;
  s.in.v = s.v;
  s.in.dout = s.dout;
}

static void fill_all(trial_fill value) {
  const reference_problem *in = &s.in;
  fill(s.q, TRIAL_Q, in->seqlen_q, in->heads_q, in->dim_qk, value);
  fill(s.k, TRIAL_K, in->seqlen_k, in->heads_kv, in->dim_qk, value);
  fill(s.v, TRIAL_V, in->seqlen_k, in->heads_kv, in->dim_v, value);
  fill(s.dout, TRIAL_DOUT, in->seqlen_q, in->heads_q, in->dim_v, value);
  fill(s.dlse, TRIAL_DLSE, in->heads_q, in->seqlen_q, 1, value);
}

static void compute(void) {
  expect_ok(reference_forward(&s.in, s.o, s.lse));
  expect_ok(reference_backward(&s.in, s.dq, s.dk, s.dv));
}

/* ---- Tests ------------------------------------------------------------------------------- */

static double dense_checksum(const double *values, int64_t rows, int64_t heads, int64_t dim) {
  return checksum(values, (int64_t[4]){1, rows, heads, dim}, (int64_t[4]){0, heads * dim, dim, 1});
}

static void gqa_data_has_the_known_checksums(int masked, const double wanted[5]) {
  begin(1, (int64_t[]){6, 2}, (int64_t[]){3, 5}, (int64_t[]){8, 8});
  fill_all(closed_form);
  if (masked) s.in.keep = causal;
  compute();
  assert_near("O", dense_checksum(s.o, 3, 6, 8), wanted[0], 1e-6);
  assert_near("LSE", checksum(s.lse, (int64_t[]){1, 3, 6, 1}, (int64_t[]){0, 1, 3, 1}), wanted[1],
              1e-6);
  assert_near("dQ", dense_checksum(s.dq, 3, 6, 8), wanted[2], 1e-6);
  assert_near("dK", dense_checksum(s.dk, 5, 2, 8), wanted[3], 1e-6);
  assert_near("dV", dense_checksum(s.dv, 5, 2, 8), wanted[4], 1e-6);
}

static void six_heads_share_two_without_a_mask(void **state) {
  static const double sums[] = {-67.907873, 277.657811, -10.668420, -0.055490, 37.992040};
  (void)state;
  gqa_data_has_the_known_checksums(0, sums);
  assert_near("O[h1,i1,0]", s.o[(1 * 6 + 1) * 8], 0.00060279, 1e-8);
  assert_near("LSE[h5,i2]", s.lse[5 * 3 + 2], 1.57518262, 1e-8);
  assert_near("dK[kv1,0,0]", s.dk[8], 0.08800355, 1e-8);
  assert_near("dV[kv0,1,2]", s.dv[2 * 8 + 2], 0.04659501, 1e-8);
}

static void six_heads_share_two_under_causal(void **state) {
  static const double sums[] = {-149.684001, 237.109209, -2.549808, -0.146510, 31.990733};
  (void)state;
  gqa_data_has_the_known_checksums(1, sums);
  assert_near("O[1,1,0]", s.o[(1 * 6 + 1) * 8], 0.03524753, 1e-8);
  assert_near("dK[1,0,0]", s.dk[8], 0.10589397, 1e-8);
  assert_near("dV[0,1,2]", s.dv[2 * 8 + 2], 0.10437911, 1e-8);
}

/* q = 0, v[j] = j, dO = 1: O is the mean visible index and exp(LSE) the number of visible keys. */
static void count_keys(int64_t seqlen_q, int64_t seqlen_k,
                       int (*keep)(const void *, const cli_pair *)) {
  begin(1, (int64_t[]){1, 1}, (int64_t[]){seqlen_q, seqlen_k}, (int64_t[]){1, 1});
  for (int64_t j = 0; j < seqlen_k; ++j) s.v[j] = (double)j;
  for (int64_t i = 0; i < seqlen_q; ++i) s.dout[i] = 1;
  s.in.keep = keep;
  compute();
}

static void assert_rows(const char *what, const double *got, const double *wanted, size_t count) {
  for (size_t i = 0; i < count; ++i) assert_near(what, got[i], wanted[i], 1e-14);
}

static void causal_is_aligned_to_the_bottom_right(void **state) {
  (void)state;
  count_keys(4, 2, causal);
  assert_rows("O", s.o, (double[]){0, 0, 0, 0.5}, 4);
  assert_rows("LSE", s.lse, (double[]){-INFINITY, -INFINITY, 0, log(2)}, 4);
  assert_rows("dV", s.dv, (double[]){1.5, 0.5}, 2);
  assert_rows("dQ", s.dq, (double[]){0, 0, 0, 0}, 4);
  count_keys(2, 5, causal);
  assert_rows("O", s.o, (double[]){1.5, 2}, 2);
  assert_rows("LSE", s.lse, (double[]){log(4), log(5)}, 2);
}

static void a_window_of_two_keys_back_sees_three(void **state) {
  (void)state;
  count_keys(6, 6, window);
  assert_rows("O", s.o, (double[]){0, 0.5, 1, 2, 3, 4}, 6);
  assert_rows("LSE", s.lse, (double[]){0, log(2), log(3), log(3), log(3), log(3)}, 6);
}

static void no_keys_at_all_give_zeros(void **state) {
  (void)state;
  begin(1, (int64_t[]){2, 1}, (int64_t[]){3, 0}, (int64_t[]){4, 4});
  fill_all(normal);
  compute();
  for (int i = 0; i < 3 * 2 * 4; ++i) assert_near("O", s.o[i], 0, 0);
  for (int i = 0; i < 3 * 2; ++i) assert_near("LSE", s.lse[i], -INFINITY, 0);
  for (int i = 0; i < 3 * 2 * 4; ++i) assert_near("dQ", s.dq[i], 0, 0);
}

/* Equal keys: O is the mean of the values and LSE the common score plus ln n, however large. */
static void equal_keys_average_at_any_magnitude(void **state) {
  static const double scores[] = {-120, 0, 700, 1.41767475e11};
  (void)state;
  for (size_t n = 0; n < COUNT_OF(scores); ++n) {
    begin(1, (int64_t[]){1, 1}, (int64_t[]){1, 3}, (int64_t[]){1, 1});
    s.q[0] = 1;
    s.dout[0] = 1;
    for (int j = 0; j < 3; ++j) s.k[j] = scores[n], s.v[j] = j * j;
    compute();
    assert_near("O", s.o[0], 5.0 / 3, 1e-14);
    assert_near("LSE", s.lse[0], scores[n] + log(3), 1e-14 * fabs(scores[n]) + 1e-14);
    assert_near("dQ", s.dq[0], 0, 1e-14 * fabs(scores[n]) + 1e-15);
  }
}

static void a_capped_score_has_the_known_gradient(void **state) {
  (void)state;
  begin(1, (int64_t[]){1, 1}, (int64_t[]){1, 2}, (int64_t[]){1, 1});
  s.q[0] = s.v[0] = s.dout[0] = s.k[0] = 1;
  s.k[1] = 3;
  compute();
  assert_near("O", s.o[0], 0.11920292, 1e-8);
  assert_near("dQ", s.dq[0], -0.20998717, 1e-8);
  s.in.score = softcap;
  compute();
  assert_near("O", s.o[0], 0.29192312, 1e-8);
  assert_near("LSE", s.lse[0], 2.15549911, 1e-8);
  assert_near("dQ", s.dq[0], 0.05050354, 1e-8);
  assert_near("dK0", s.dk[0], 0.16256190, 1e-8);
  assert_near("dK1", s.dk[1], -0.03735279, 1e-8);
}

/* NaN in every key and value that no row sees must change no bit of the rest. */
static void what_no_row_sees_may_be_nan(void **state) {
  static study clean;
  (void)state;
  begin(1, (int64_t[]){2, 1}, (int64_t[]){4, 7}, (int64_t[]){4, 4});
  fill_all(normal);
  s.in.keep = window; /* rows stand at 3 to 6: key 0 is behind them all */
  compute();
  clean = s;
  for (int c = 0; c < 4; ++c) s.k[c] = s.v[c] = NAN;
  compute();
  assert_memory_equal(s.o, clean.o, sizeof s.o);
  assert_memory_equal(s.lse, clean.lse, sizeof s.lse);
  assert_memory_equal(s.dq, clean.dq, sizeof s.dq);
  assert_memory_equal(s.dk, clean.dk, sizeof s.dk);
  assert_memory_equal(s.dv, clean.dv, sizeof s.dv);
}

static void a_score_of_minus_infinity_is_not_visible(void **state) {
  (void)state;
  count_keys(1, 6, NULL);
  s.in.score = hide_odd_keys;
  compute();
  assert_near("O", s.o[0], 2, 1e-15);
  assert_near("LSE", s.lse[0], log(3), 1e-15);
  assert_rows("dV", s.dv, (double[]){1. / 3, 0, 1. / 3, 0, 1. / 3, 0}, 6);
}

/* ---- Sinks ------------------------------------------------------------------------------- */

static double sinks[8], dsinks[8];

static double sink(const void *with, const cli_pair *row) {
  (void)with;
  return sinks[row->head];
}

static void add_dsink(void *to, const cli_pair *row, double dsink, double noise) {
  (void)to;
  assert_true(noise >= 0 && (noise > 0 || dsink == 0));
  dsinks[row->head] += dsink;
}

/* A sink of ln 3 counts as three keys that have no value. */
static void a_sink_joins_the_sum_and_gives_no_value(void **state) {
  (void)state;
  count_keys(4, 2, causal);
  sinks[0] = log(3);
  s.in.sink = sink;
  compute();
  assert_rows("O", s.o, (double[]){0, 0, 0, 1. / 5}, 4);
  assert_rows("LSE", s.lse, (double[]){log(3), log(3), log(4), log(5)}, 4);
  assert_rows("dV", s.dv, (double[]){1. / 4 + 1. / 5, 1. / 5}, 2);
}

static void a_sink_of_minus_infinity_is_none(void **state) {
  (void)state;
  count_keys(4, 2, causal);
  sinks[0] = -INFINITY;
  s.in.sink = sink;
  compute();
  assert_rows("O", s.o, (double[]){0, 0, 0, 0.5}, 4);
  assert_rows("LSE", s.lse, (double[]){-INFINITY, -INFINITY, 0, log(2)}, 4);
}

static void a_sink_has_no_gradient_from_rows_without_keys(void **state) {
  (void)state;
  count_keys(4, 0, NULL);
  sinks[0] = 1;
  dsinks[0] = 0;
  s.in.sink = sink;
  s.in.sunk = add_dsink;
  compute();
  assert_rows("LSE", s.lse, (double[]){1, 1, 1, 1}, 4);
  assert_near("dsink", dsinks[0], 0, 0);
}

/* ---- Finite differences ------------------------------------------------------------------ */

/* The scalar whose gradients dO and dLSE stand for. */
static double loss(void) {
  double sum = 0;
  expect_ok(reference_forward(&s.in, s.o, s.lse));
  int64_t rows = s.in.batch * s.in.seqlen_q * s.in.heads_q;
  for (int64_t i = 0; i < rows * s.in.dim_v; ++i) sum += s.dout[i] * s.o[i];
  for (int64_t i = 0; i < rows && s.in.dlse; ++i)
    if (s.lse[i] != -INFINITY) sum += s.dlse[i] * s.lse[i];
  return sum;
}

static void assert_gradient(const char *what, double *input, const double *gradient,
                            int64_t count) {
  const double h = 1e-5;
  for (int64_t i = 0; i < count; ++i) {
    double kept = input[i], above, below;
    input[i] = kept + h;
    above = loss();
    input[i] = kept - h;
    below = loss();
    input[i] = kept;
    assert_near(what, gradient[i], (above - below) / (2 * h), 1e-8);
  }
}

static void assert_gradients(void) {
  const reference_problem *in = &s.in;
  compute();
  assert_gradient("dQ", s.q, s.dq, in->batch * in->seqlen_q * in->heads_q * in->dim_qk);
  assert_gradient("dK", s.k, s.dk, in->batch * in->seqlen_k * in->heads_kv * in->dim_qk);
  assert_gradient("dV", s.v, s.dv, in->batch * in->seqlen_k * in->heads_kv * in->dim_v);
}

static void gradients_agree_with_differences(void **state) {
  (void)state;
  begin(2, (int64_t[]){6, 2}, (int64_t[]){3, 5}, (int64_t[]){4, 3});
  fill_all(normal);
  assert_gradients();
  s.in.dlse = s.dlse;
  assert_gradients();
}

static void gradients_with_mask_and_score_agree_with_differences(void **state) {
  (void)state;
  begin(1, (int64_t[]){4, 2}, (int64_t[]){5, 3}, (int64_t[]){3, 4});
  fill_all(normal);
  s.in.dlse = s.dlse;
  s.in.keep = causal; /* rows 0 and 1 see nothing */
  s.in.score = softcap;
  s.in.softmax_scale = 1.7;
  assert_gradients();
}

/* A bias of each head, and one of each place. */
static double biases[8], dbiases[8];

static double biased(const void *with, const cli_pair *pair, double score, double *derivative) {
  (void)with;
  *derivative = 2;
  return 2 * score + biases[pair->head] * (double)(pair->key - pair->row);
}

static void add_dbias(void *to, const cli_pair *pair, double score, double ds, double noise) {
  (void)to, (void)score;
  assert_true(noise > 0 && fabs(ds) < 1e6 * noise + 1);
  dbiases[pair->head] += ds * (double)(pair->key - pair->row);
}

static void gradients_of_scores_and_sinks_agree_with_differences(void **state) {
  (void)state;
  begin(2, (int64_t[]){4, 2}, (int64_t[]){5, 3}, (int64_t[]){3, 4});
  fill_all(normal);
  for (int head = 0; head < 4; ++head) {
    biases[head] = 0.3 * head - 0.5;
    sinks[head] = head - 1.5;
    dbiases[head] = dsinks[head] = 0;
  }
  s.in.dlse = s.dlse;
  s.in.keep = causal;
  s.in.score = biased;
  s.in.sink = sink;
  s.in.scored = add_dbias;
  s.in.sunk = add_dsink;
  assert_gradients();
  assert_gradient("dbias", biases, dbiases, 4);
  assert_gradient("dsink", sinks, dsinks, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(six_heads_share_two_without_a_mask),
      cmocka_unit_test(six_heads_share_two_under_causal),
      cmocka_unit_test(causal_is_aligned_to_the_bottom_right),
      cmocka_unit_test(a_window_of_two_keys_back_sees_three),
      cmocka_unit_test(no_keys_at_all_give_zeros),
      cmocka_unit_test(equal_keys_average_at_any_magnitude),
      cmocka_unit_test(a_capped_score_has_the_known_gradient),
      cmocka_unit_test(what_no_row_sees_may_be_nan),
      cmocka_unit_test(a_score_of_minus_infinity_is_not_visible),
      cmocka_unit_test(a_sink_joins_the_sum_and_gives_no_value),
      cmocka_unit_test(a_sink_of_minus_infinity_is_none),
      cmocka_unit_test(a_sink_has_no_gradient_from_rows_without_keys),
      cmocka_unit_test(gradients_agree_with_differences),
      cmocka_unit_test(gradients_with_mask_and_score_agree_with_differences),
      cmocka_unit_test(gradients_of_scores_and_sinks_agree_with_differences),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
