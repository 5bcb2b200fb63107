/* reference.c: one row of queries at a time, every pair in the order of the keys. */
#include "reference.h"

#include "gen/error.h"

#include <math.h>
#include <stdlib.h>

/* One row: the query's index and what it sees. Pairs that are not kept have p = 0 and slope = 0. */
typedef struct row {
  int64_t batch, head_q, head_kv, i;
  double *p;     /* probability of each key */
  double *slope; /* derivative of the score by the scaled product */
  double lse;
} row;

static const double *query_vector(const reference_problem *in, const double *from, const row *r,
                                  int64_t dim) {
  return from + ((r->batch * in->seqlen_q + r->i) * in->heads_q + r->head_q) * dim;
}

static int64_t key_offset(const reference_problem *in, const row *r, int64_t j, int64_t dim) {
  return ((r->batch * in->seqlen_k + j) * in->heads_kv + r->head_kv) * dim;
}

static int64_t lse_offset(const reference_problem *in, const row *r) {
  return (r->batch * in->heads_q + r->head_q) * in->seqlen_q + r->i;
}

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += a[c] * b[c];
  return sum;
}

/* to += factor * from */
static void add_scaled(double *to, double factor, const double *from, int64_t n) {
  for (int64_t c = 0; c < n; ++c) to[c] += factor * from[c];
}

/* The final score of a pair, -inf where it is not visible. */
static double pair_score(const reference_problem *in, const row *r, int64_t j, double *slope) {
  int64_t place = r->i + in->seqlen_k - in->seqlen_q;
  *slope = 0;
  if (in->keep && !in->keep(in->with, place, j)) return -INFINITY;
  const double *q = query_vector(in, in->q, r, in->dim_qk);
  const double *k = in->k + key_offset(in, r, j, in->dim_qk);
  double s = in->softmax_scale * dot(q, k, in->dim_qk);
  *slope = 1;
  return in->score ? in->score(in->with, s, place, j, slope) : s;
}

/* Fills the row's probabilities and LSE. */
static void softmax_row(const reference_problem *in, row *r) {
  double max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < in->seqlen_k; ++j) {
    r->p[j] = pair_score(in, r, j, &r->slope[j]);
    if (r->p[j] > max || isnan(r->p[j])) max = r->p[j];
  }
  for (int64_t j = 0; j < in->seqlen_k; ++j) {
    int visible = r->p[j] != -INFINITY;
    r->p[j] = visible ? exp(r->p[j] - max) : 0;
    if (!visible) r->slope[j] = 0;
    sum += r->p[j];
  }
  r->lse = sum == 0 ? -INFINITY : max + log(sum);
  for (int64_t j = 0; j < in->seqlen_k && sum != 0; ++j) r->p[j] /= sum;
}

static double exact(double value) {
  return value;
}

/* o = P V for the row; dim_v values. */
static void output_row(const reference_problem *in, const row *r, double (*taken)(double),
                       double *o) {
  for (int64_t c = 0; c < in->dim_v; ++c) o[c] = 0;
  for (int64_t j = 0; j < in->seqlen_k; ++j)
    if (r->p[j] != 0)
      add_scaled(o, taken(r->p[j]), in->v + key_offset(in, r, j, in->dim_v), in->dim_v);
}

/* Adds what the row gives to dq (its own), dk and dv; o is scratch of dim_v values. */
static void gradient_row(const reference_problem *in, const row *r, double *o, double *dq,
                         double *dk, double *dv) {
  double (*taken)(double) = in->rounded ? in->rounded : exact;
  output_row(in, r, exact, o);
  const double *q = query_vector(in, in->q, r, in->dim_qk);
  const double *dout = query_vector(in, in->dout, r, in->dim_v);
  double delta = dot(dout, o, in->dim_v) - (in->dlse ? in->dlse[lse_offset(in, r)] : 0);
  for (int64_t j = 0; j < in->seqlen_k; ++j) {
    if (r->p[j] == 0) continue;
    int64_t at_qk = key_offset(in, r, j, in->dim_qk), at_v = key_offset(in, r, j, in->dim_v);
    double dp = dot(dout, in->v + at_v, in->dim_v);
    double ds = taken(r->p[j] * (dp - delta) * r->slope[j]) * in->softmax_scale;
    add_scaled(dq, ds, in->k + at_qk, in->dim_qk);
    add_scaled(dk + at_qk, ds, q, in->dim_qk);
    add_scaled(dv + at_v, taken(r->p[j]), dout, in->dim_v);
  }
}

/* Where the results go; dq is NULL in forward, o in backward. */
typedef struct results {
  double *o, *lse, *dq, *dk, *dv;
} results;

static void one_row(const reference_problem *in, row *r, const results *out, double *scratch) {
  softmax_row(in, r);
  int64_t vector = (r->batch * in->seqlen_q + r->i) * in->heads_q + r->head_q;
  if (out->o) {
    output_row(in, r, in->rounded ? in->rounded : exact, out->o + vector * in->dim_v);
    out->lse[lse_offset(in, r)] = r->lse;
  } else {
    gradient_row(in, r, scratch, out->dq + vector * in->dim_qk, out->dk, out->dv);
  }
}

static fa_status each_row(const reference_problem *in, const results *out) {
  int64_t group = in->heads_kv ? in->heads_q / in->heads_kv : 1, done = 0;
  int64_t rows = in->batch * in->heads_q * in->seqlen_q;
  size_t keys = (size_t)in->seqlen_k;
  row r = {0};
  r.p = calloc(2 * keys + (size_t)in->dim_v, sizeof *r.p);
  if (!r.p) return fail(FA_NO_MEMORY, "reference: no memory for a row of %zu keys", keys);
  r.slope = r.p + keys;
  for (r.batch = 0; r.batch < in->batch; ++r.batch)
    for (r.head_q = 0; r.head_q < in->heads_q; ++r.head_q)
      for (r.i = 0; r.i < in->seqlen_q; ++r.i) {
        r.head_kv = r.head_q / group;
        one_row(in, &r, out, r.slope + keys);
        if (in->progress) in->progress(in->progress_to, (double)++done / (double)rows);
      }
  free(r.p);
  return FA_OK;
}

fa_status reference_forward(const reference_problem *in, double *o, double *lse) {
  results out = {o, lse, NULL, NULL, NULL};
  return each_row(in, &out);
}

static void clear(double *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = 0;
}

fa_status reference_backward(const reference_problem *in, double *dq, double *dk, double *dv) {
  results out = {NULL, NULL, dq, dk, dv};
  clear(dq, in->batch * in->seqlen_q * in->heads_q * in->dim_qk);
  clear(dk, in->batch * in->seqlen_k * in->heads_kv * in->dim_qk);
  clear(dv, in->batch * in->seqlen_k * in->heads_kv * in->dim_v);
  return each_row(in, &out);
}
