/* reference.c: one row of queries at a time, every pair in the order of the keys. */
#include "reference.h"

#include "gen/error.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* What a result of f32 may be off by, of its size or of its terms': a sum or two. */
static const double f32_rounding = 2 * FLT_EPSILON;

/* One row: where it is and what it sees. Pairs that are not kept have p = 0 and slope = 0. */
typedef struct row {
  cli_pair at; /* key: the one looked at */
  int64_t head_kv;
  double *s;     /* scaled product with each key, where it is kept */
  double *p;     /* probability of each key */
  double *slope; /* derivative of the score by the scaled product */
  double lse, sink;
} row;

static const double *query_vector(const reference_problem *in, const double *from, const row *r,
                                  int64_t dim) {
  return from + ((r->at.batch * in->seqlen_q + r->at.row) * in->heads_q + r->at.head) * dim;
}

static int64_t key_offset(const reference_problem *in, const row *r, int64_t j, int64_t dim) {
  return ((r->at.batch * in->seqlen_k + j) * in->heads_kv + r->head_kv) * dim;
}

static int64_t lse_offset(const reference_problem *in, const row *r) {
  return (r->at.batch * in->heads_q + r->at.head) * in->seqlen_q + r->at.row;
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

/* The sum of the sizes of the terms. */
static double dot_of_sizes(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += fabs(a[c] * b[c]);
  return sum;
}

/* The final score of a pair, -inf where it is not visible. */
static double pair_score(const reference_problem *in, row *r, int64_t j) {
  r->at.key = j;
  r->slope[j] = 0;
  if (in->keep && !in->keep(in->with, &r->at)) return -INFINITY;
  const double *q = query_vector(in, in->q, r, in->dim_qk);
  const double *k = in->k + key_offset(in, r, j, in->dim_qk);
  r->s[j] = in->softmax_scale * dot(q, k, in->dim_qk);
  r->slope[j] = 1;
  return in->score ? in->score(in->with, &r->at, r->s[j], &r->slope[j]) : r->s[j];
}

/* Fills the row's probabilities and LSE. */
static void softmax_row(const reference_problem *in, row *r) {
  r->sink = in->sink ? in->sink(in->with, &r->at) : -INFINITY;
  double max = r->sink, sum = 0;
  for (int64_t j = 0; j < in->seqlen_k; ++j) {
    r->p[j] = pair_score(in, r, j);
    if (r->p[j] > max || isnan(r->p[j])) max = r->p[j];
  }
  for (int64_t j = 0; j < in->seqlen_k; ++j) {
    int visible = r->p[j] != -INFINITY;
    r->p[j] = visible ? exp(r->p[j] - max) : 0;
    if (!visible) r->slope[j] = 0;
    sum += r->p[j];
  }
  if (r->sink != -INFINITY) sum += exp(r->sink - max);
  r->lse = sum == 0 ? -INFINITY : max + log(sum);
  double scale = in->lse && sum != 0 ? exp(max - in->lse[lse_offset(in, r)]) : 1 / sum;
  for (int64_t j = 0; j < in->seqlen_k && sum != 0; ++j) r->p[j] *= scale;
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

/* D of a row, and what f32 makes of it and of the row's probabilities. */
typedef struct row_delta {
  double value, lost; /* lost: one rounding of D's terms */
  double exponent;    /* the size of what P = exp(S - LSE) is made of */
  double pairs;       /* visible ones */
} row_delta;

/* Hands over what one visible key makes of the gradient into its score. Roundings of dP and P
   differ from key to key, those of D are the same for all keys of the row. */
static void gradient_pair(const reference_problem *in, row *r, int64_t j, const row_delta *d) {
  const double *dout = query_vector(in, in->dout, r, in->dim_v);
  const double *v = in->v + key_offset(in, r, j, in->dim_v);
  double difference = dot(dout, v, in->dim_v) - d->value;
  double own = f32_rounding * (dot_of_sizes(dout, v, in->dim_v) + fabs(difference) * d->exponent);
  r->at.key = j;
  in->scored(in->gradients_to, &r->at, r->s[j], r->p[j] * difference,
             r->p[j] * hypot(own, sqrt(d->pairs) * d->lost));
}

/* The gradients into the scores and the sink of a row, for whom they are of use. */
static void gradient_scores(const reference_problem *in, row *r, row_delta *d) {
  d->pairs = 0;
  for (int64_t j = 0; j < in->seqlen_k; ++j) d->pairs += r->p[j] != 0;
  if (in->sunk && r->sink != -INFINITY) {
    double p = exp(r->sink - r->lse), own = f32_rounding * fabs(d->value) * d->exponent;
    in->sunk(in->gradients_to, &r->at, -p * d->value, p * hypot(own, d->lost));
  }
  for (int64_t j = 0; in->scored && j < in->seqlen_k; ++j)
    if (r->p[j] != 0) gradient_pair(in, r, j, d);
}

/* Adds what the row gives to dq (its own), dk and dv; o is scratch of dim_v values. */
static void gradient_row(const reference_problem *in, row *r, double *o, double *dq, double *dk,
                         double *dv) {
  double (*taken)(double) = in->rounded ? in->rounded : exact;
  output_row(in, r, exact, o);
  const double *q = query_vector(in, in->q, r, in->dim_qk);
  const double *dout = query_vector(in, in->dout, r, in->dim_v);
  double dlse = in->dlse ? in->dlse[lse_offset(in, r)] : 0;
  double delta = dot(dout, o, in->dim_v) - dlse;
  row_delta d = {.value = delta, .exponent = fmax(1, fabs(r->lse))};
  d.lost = f32_rounding * (dot_of_sizes(dout, o, in->dim_v) + fabs(dlse));
  gradient_scores(in, r, &d);
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
  int64_t vector = (r->at.batch * in->seqlen_q + r->at.row) * in->heads_q + r->at.head;
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
  r.s = calloc(3 * keys + (size_t)in->dim_v, sizeof *r.s);
  if (!r.s) return fail(FA_NO_MEMORY, "reference: no memory for a row of %zu keys", keys);
  r.p = r.s + keys;
  r.slope = r.p + keys;
  for (r.at.batch = 0; r.at.batch < in->batch; ++r.at.batch)
    for (r.at.head = 0; r.at.head < in->heads_q; ++r.at.head)
      for (r.at.row = 0; r.at.row < in->seqlen_q; ++r.at.row) {
        r.head_kv = r.at.head / group;
        one_row(in, &r, out, r.slope + keys);
        if (in->progress) in->progress(in->progress_to, (double)++done / (double)rows);
      }
  free(r.s);
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
