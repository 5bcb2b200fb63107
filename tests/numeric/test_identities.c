/* test_identities.c: what must hold between the outputs whatever the inputs are. P is rebuilt here
   in double from the inputs and the kernel's LSE, as every backward pass does. */
#include "dense.h"

#include <math.h>

static const uint64_t seed = 8;

/* One row of queries and the keys it sees. */
typedef struct row {
  int64_t batch, head, i;
} row;

static double score_of(const dense *p, const row *r, int64_t j) {
  int64_t head_kv = r->head / (p->args.heads_q / p->args.heads_kv);
  double scale = p->args.softmax_scale, sum = 0;
  if (scale == 0) scale = 1 / sqrt(p->spec.dim_qk);
  for (int64_t c = 0; c < p->spec.dim_qk; ++c)
    sum += dense_at(p, TRIAL_Q, r->batch, r->i, r->head, c) *
           dense_at(p, TRIAL_K, r->batch, j, head_kv, c);
  return scale * sum;
}

static double probability(const dense *p, const row *r, int64_t j) {
  int64_t last = p->args.seqlen_k - 1;
  if (p->spec.causal) last = r->i + p->args.seqlen_k - p->args.seqlen_q;
  return j > last ? 0 : exp(score_of(p, r, j) - dense_at(p, TRIAL_LSE, r->batch, r->i, r->head, 0));
}

static void each_row(const dense *p, void (*test)(const dense *p, const row *r)) {
  row r;
  for (r.batch = 0; r.batch < p->args.batch; ++r.batch)
    for (r.head = 0; r.head < p->args.heads_q; ++r.head)
      for (r.i = 0; r.i < p->args.seqlen_q; ++r.i) test(p, &r);
}

static void with_forward(const char *words, void (*test)(const dense *p, const row *r)) {
  dense p;
  dense_create(&p, words, 2, 6, 40, 70);
  dense_fill_inputs(&p, dense_normal, &seed);
  dense_forward(support_context(), &p);
  each_row(&p, test);
  dense_free(&p);
}

static void row_sums_to_one(const dense *p, const row *r) {
  double sum = 0;
  for (int64_t j = 0; j < p->args.seqlen_k; ++j) sum += probability(p, r, j);
  assert_near("sum of exp(S - LSE)", sum, 1, on_target(2e-6, 1e-5));
}

/* Under GQA this holds only when LSE is by query head and each head reads its own kv head. */
static void rows_of_probabilities_sum_to_one(void **state) {
  (void)state;
  with_forward("fwd cpu f32 d64 gqa3", row_sums_to_one);
  with_forward("fwd cpu f32 d64 gqa3 causal", row_sums_to_one);
  with_forward("fwd cpu f16 d72 gqa2 causal", row_sums_to_one);
  with_forward("fwd cpu bf16 d128", row_sums_to_one);
}

static void output_is_the_mean_of_values(const dense *p, const row *r) {
  int64_t head_kv = r->head / (p->args.heads_q / p->args.heads_kv);
  for (int64_t c = 0; c < p->spec.dim_v; ++c) {
    double sum = 0;
    for (int64_t j = 0; j < p->args.seqlen_k; ++j)
      sum += probability(p, r, j) * dense_at(p, TRIAL_V, r->batch, j, head_kv, c);
    assert_near("O = P V", dense_at(p, TRIAL_O, r->batch, r->i, r->head, c), sum,
                on_target(3e-6, 2e-3));
  }
}

static void outputs_are_means_of_values_by_those_probabilities(void **state) {
  (void)state;
  with_forward("fwd cpu f32 d64 gqa3 causal", output_is_the_mean_of_values);
}

/* rowsum(dO * O) = rowsum(P * dP): what the preprocess pass rests on. */
static void deltas_agree(const dense *p, const row *r) {
  int64_t head_kv = r->head / (p->args.heads_q / p->args.heads_kv);
  double from_o = 0, from_p = 0;
  for (int64_t c = 0; c < p->spec.dim_v; ++c)
    from_o += dense_at(p, TRIAL_DOUT, r->batch, r->i, r->head, c) *
              dense_at(p, TRIAL_O, r->batch, r->i, r->head, c);
  for (int64_t j = 0; j < p->args.seqlen_k; ++j) {
    double dp = 0;
    for (int64_t c = 0; c < p->spec.dim_v; ++c)
      dp += dense_at(p, TRIAL_DOUT, r->batch, r->i, r->head, c) *
            dense_at(p, TRIAL_V, r->batch, j, head_kv, c);
    from_p += probability(p, r, j) * dp;
  }
  assert_near("rowsum(dO * O) = rowsum(P * dP)", from_o, from_p, on_target(1e-5, 1e-2));
}

static void delta_is_the_same_from_o_and_from_p(void **state) {
  (void)state;
  with_forward("fwd cpu f32 d64 gqa3", deltas_agree);
  with_forward("fwd cpu f32 d40 v96 gqa2 causal", deltas_agree);
}

/* ---- Scale ------------------------------------------------------------------------------- */

static double halved_query(const void *with, trial_tensor tensor, const int64_t at[4]) {
  double value = dense_normal(with, tensor, at);
  return tensor == TRIAL_Q ? value / 2 : value;
}

/* Half the query under twice the scale is the same problem, exactly: only powers of two differ. dQ
   doubles. A scale applied twice, or not at all somewhere, cannot pass. */
static void the_scale_is_applied_once(void **state) {
  /* bf16 has the exponents of f32, so that halves are exact too */
  const char *words = on_gpu() ? "bwd cpu bf16 d64 gqa2 causal det" : "bwd cpu f32 d64 gqa2 causal";
  dense once, twice;
  (void)state;
  dense_create(&once, words, 1, 4, 70, 90);
  dense_create(&twice, words, 1, 4, 70, 90);
  dense_fill_inputs(&once, dense_normal, &seed);
  dense_fill_inputs(&twice, halved_query, &seed);
  once.args.softmax_scale = 0.15f;
  twice.args.softmax_scale = 0.3f;
  dense_both(support_context(), &once);
  dense_both(support_context(), &twice);
  assert_same_bytes(&once, &twice, TRIAL_O);
  assert_same_bytes(&once, &twice, TRIAL_LSE);
  assert_same_bytes(&once, &twice, TRIAL_DK);
  assert_same_bytes(&once, &twice, TRIAL_DV);
  for (int64_t i = 0; i < dense_count(&once, TRIAL_DQ); ++i)
    assert_near("dQ", dense_get(&twice, TRIAL_DQ, i), 2 * dense_get(&once, TRIAL_DQ, i), 0);
  dense_free(&once);
  dense_free(&twice);
}

/* One key: LSE is the scaled product itself. */
static void lse_of_one_key_is_its_score(void **state) {
  static const float scales[] = {0, 1, 0.25f, 3};
  (void)state;
  for (size_t n = 0; n < COUNT_OF(scales); ++n) {
    dense p;
    dense_create(&p, "fwd cpu f32 d64 gqa2", 2, 4, 5, 1);
    dense_fill_inputs(&p, dense_normal, &seed);
    p.args.softmax_scale = scales[n];
    dense_forward(support_context(), &p);
    for (row r = {0, 0, 0}; r.head < 4; ++r.head)
      for (r.i = 0; r.i < 5; ++r.i) {
        double wanted = score_of(&p, &r, 0);
        assert_near("LSE", dense_at(&p, TRIAL_LSE, 0, r.i, r.head, 0), wanted,
                    on_target(3e-5, 1e-4));
      }
    dense_free(&p);
  }
}

/* Adding one vector to every key adds q . x to a row's scores: O stays, and dQ stays as well. */
static void a_common_shift_of_the_keys_changes_only_lse(void **state) {
  dense base, shifted;
  (void)state;
  dense_create(&base, "bwd cpu f32 d64", 1, 2, 70, 90);
  dense_create(&shifted, "bwd cpu f32 d64", 1, 2, 70, 90);
  dense_fill_inputs(&base, dense_normal, &seed);
  dense_fill_inputs(&shifted, dense_normal, &seed);
  for (int64_t i = 0; i < dense_count(&base, TRIAL_K); ++i)
    dense_set(&shifted, TRIAL_K, i, dense_get(&base, TRIAL_K, i) + (double)(i % 64) / 64);
  dense_both(support_context(), &base);
  dense_both(support_context(), &shifted);
  for (int64_t i = 0; i < dense_count(&base, TRIAL_O); ++i)
    assert_near("O", dense_get(&shifted, TRIAL_O, i), dense_get(&base, TRIAL_O, i),
                on_target(2e-5, 2e-2));
  for (int64_t i = 0; i < dense_count(&base, TRIAL_DQ); ++i)
    assert_near("dQ", dense_get(&shifted, TRIAL_DQ, i), dense_get(&base, TRIAL_DQ, i),
                on_target(2e-5, 2e-2));
  dense_free(&base);
  dense_free(&shifted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_of_probabilities_sum_to_one),
      cmocka_unit_test(outputs_are_means_of_values_by_those_probabilities),
      cmocka_unit_test(delta_is_the_same_from_o_and_from_p),
      cmocka_unit_test(the_scale_is_applied_once),
      cmocka_unit_test(lse_of_one_key_is_its_score),
      cmocka_unit_test(a_common_shift_of_the_keys_changes_only_lse),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
