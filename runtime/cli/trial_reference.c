/* trial_reference.c: the float64 side of a trial: what every output should be, and what rounding
   alone costs it. */
#include "trial_state.h"

#include "compare.h"
#include "reference.h"
#include "storage.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- The reference -------------------------------------------------------------------------- */

static int keep(const void *with, const cli_pair *pair) {
  return oracle_keep(with, pair);
}

static double score(const void *with, const cli_pair *pair, double s, double *derivative) {
  return oracle_score(with, pair, s, derivative);
}

static double score_f32(const void *with, const cli_pair *pair, double s, double *derivative) {
  return oracle_score_f32(with, pair, s, derivative);
}

static double score_gpu(const void *with, const cli_pair *pair, double s, double *derivative) {
  return oracle_score_gpu(with, pair, s, derivative);
}

static double sink(const void *with, const cli_pair *row) {
  return oracle_sink(with, row);
}

static reference_problem reference_of(const trial *t) {
  const cli_sizes *n = &t->options->sizes;
  reference_problem in = {.batch = n->batch, .heads_q = n->heads_q, .heads_kv = n->heads_kv};
  in.seqlen_q = n->seqlen_q;
  in.seqlen_k = n->seqlen_k;
  in.dim_qk = t->spec.dim_qk;
  in.dim_v = t->spec.dim_v;
  in.softmax_scale = t->softmax_scale;
  in.q = t->values[TRIAL_Q];
  in.k = t->values[TRIAL_K];
  in.v = t->values[TRIAL_V];
  in.dout = t->values[TRIAL_DOUT];
  in.dlse = t->values[TRIAL_DLSE];
  in.keep = keep;
  in.score = score;
  if (oracle_has_sink(t->oracle)) in.sink = sink;
  in.with = t->oracle;
  in.progress = t->options->progress;
  in.progress_to = t->options->progress_to;
  return in;
}

static double to_f16(double value) {
  return storage_round(value, FA_F16);
}

static double to_bf16(double value) {
  return storage_round(value, FA_BF16);
}

/* Whether P and dS reach the products in the dtype, as on tensor cores. */
static int rounds_operands(const trial *t) {
  return t->spec.target != FA_TARGET_CPU && t->spec.dtype != FA_F32;
}

/* Whether a kernel computes what the definition does not: operands in the dtype, scores in f32. */
static int computes_rounded(const trial *t) {
  return rounds_operands(t) || oracle_has_score(t->oracle);
}

static reference_problem rounded_reference_of(const trial *t) {
  reference_problem in = reference_of(t);
  in.score = t->spec.target == FA_TARGET_CPU ? score_f32 : score_gpu;
  if (rounds_operands(t)) in.rounded = t->spec.dtype == FA_F16 ? to_f16 : to_bf16;
  return in;
}

/* ---- Gradients ------------------------------------------------------------------------------ */

enum { INPUTS = 3 };
static const trial_tensor input_gradients[INPUTS] = {TRIAL_DQ, TRIAL_DK, TRIAL_DV};

/* All that backward gives; by parameters only where they have gradients. */
typedef struct gradients {
  double *inputs[INPUTS];
  double *params[PARAMS_MAX], *noises[PARAMS_MAX];
} gradients;

static fa_status create_gradients(gradients *out, const trial *t) {
  fa_status status = FA_OK;
  *out = (gradients){{NULL}, {NULL}, {NULL}};
  for (int i = 0; i < INPUTS && !status; ++i)
    status = trial_allocate(&out->inputs[i], &t->dense[input_gradients[i]]);
  for (int slot = 0; slot < t->drawn.count && !status; ++slot) {
    if (!trial_has_gradient(t, slot)) continue;
    status = trial_allocate(&out->params[slot], &t->drawn.items[slot].shape);
    if (!status) status = trial_allocate(&out->noises[slot], &t->drawn.items[slot].shape);
  }
  return status;
}

static void free_gradients(gradients *g) {
  for (int i = 0; i < INPUTS; ++i) free(g->inputs[i]);
  for (int slot = 0; slot < PARAMS_MAX; ++slot) {
    free(g->params[slot]);
    free(g->noises[slot]);
  }
}

/* Where the reference's scores and sinks send their gradients. */
typedef struct collector {
  const oracle *oracle;
  oracle_sums sums;
} collector;

static void add_score(void *to, const cli_pair *pair, double s, double ds, double noise) {
  const collector *c = to;
  oracle_add_score(c->oracle, pair, s, ds, noise, &c->sums);
}

static void add_sink(void *to, const cli_pair *row, double dsink, double noise) {
  const collector *c = to;
  oracle_add_sink(c->oracle, row, dsink, noise, &c->sums);
}

static fa_status compute_gradients(const trial *t, reference_problem *in, gradients *out) {
  collector to = {t->oracle, {out->params, out->noises}};
  int any = 0;
  for (int slot = 0; slot < t->drawn.count; ++slot) any |= trial_has_gradient(t, slot);
  in->scored = any ? add_score : NULL;
  in->sunk = any ? add_sink : NULL;
  in->gradients_to = &to;
  return reference_backward(in, out->inputs[0], out->inputs[1], out->inputs[2]);
}

/* The wanted values, which stay the trial's. */
static gradients wanted_gradients(const trial *t) {
  gradients g = {{NULL}, {NULL}, {NULL}};
  for (int i = 0; i < INPUTS; ++i) g.inputs[i] = t->wanted[input_gradients[i]];
  for (int slot = 0; slot < t->drawn.count; ++slot) {
    g.params[slot] = t->params[slot].wanted;
    g.noises[slot] = t->params[slot].noise;
  }
  return g;
}

/* ---- What rounding costs -------------------------------------------------------------------- */

/* An f32 sum is known to a few roundings of its largest terms, also where they cancel. */
static const double f32_sum = 2 * FLT_EPSILON;

/* The dLSE that changes D = rowsum(dO * O) - dLSE as much as the stored O's error does, and the sum
   itself, which is all there is of an O that 16 bits hold without an error. Rows of both signs, so
   that sums over rows do not add up what has nothing in common. */
static void error_of_delta(const trial *t, double *delta) {
  const view *shape = &t->dense[TRIAL_O];
  const double *got = t->values[TRIAL_O], *wanted = t->wanted[TRIAL_O];
  const double *dout = t->values[TRIAL_DOUT];
  int64_t at[4] = {0};
  if (view_count(shape->extent) == 0) return;
  do {
    int64_t i = view_index(shape, at), row[4] = {at[0], at[1], at[2], 0};
    double sign = (at[1] * 7 + at[2]) % 2 ? -1 : 1;
    double change = dout[i] * (wanted[i] - got[i]) + sign * f32_sum * fabs(dout[i] * wanted[i]);
    delta[view_index(&t->dense[TRIAL_LSE], row)] += change;
  } while (view_next(at, shape->extent));
}

static double rounding_of_lse(const trial *t) {
  double squares = 0;
  for (int64_t i = 0; i < view_count(t->dense[TRIAL_LSE].extent); ++i) {
    double lse = t->wanted[TRIAL_LSE][i];
    if (isfinite(lse)) squares += fmax(1, lse * lse);
  }
  return f32_sum * sqrt(squares);
}

/* from -= values, where both are finite; else 0 */
static void subtract(double *from, const double *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    from[i] = isfinite(from[i]) && isfinite(values[i]) ? from[i] - values[i] : 0;
}

static double norm(const double *values, int64_t count) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += values[i] * values[i];
  return sqrt(squares);
}

/* What rounding costs O and LSE: of their own values, of the score and, on a GPU, of P. */
static fa_status round_outputs(trial *t) {
  const view *o_shape = &t->dense[TRIAL_O], *lse_shape = &t->dense[TRIAL_LSE];
  const int64_t o_count = view_count(o_shape->extent), lse_count = view_count(lse_shape->extent);
  double *o = NULL, *lse = NULL;
  fa_status status = trial_allocate(&o, o_shape);
  if (!status) status = trial_allocate(&lse, lse_shape);
  if (!status && computes_rounded(t)) {
    reference_problem in = rounded_reference_of(t);
    status = reference_forward(&in, o, lse);
    if (!status) subtract(o, t->wanted[TRIAL_O], o_count);
    if (!status) subtract(lse, t->wanted[TRIAL_LSE], lse_count);
  }
  if (!status) {
    t->rounding[TRIAL_O] = compare_rounding(t->wanted[TRIAL_O], o, o_shape);
    t->rounding[TRIAL_LSE] = rounding_of_lse(t) + norm(lse, lse_count);
  }
  free(o);
  free(lse);
  return status;
}

/* A gradient by a parameter is a sum over pairs that may well be 0 when its terms are not: beside
   the changes, f32 costs it roundings of each term's own terms. */
static void round_params(trial *t, const gradients *change) {
  for (int slot = 0; slot < t->drawn.count; ++slot) {
    const int64_t count = view_count(t->drawn.items[slot].shape.extent);
    param_memory *param = &t->params[slot];
    double squares = 0;
    if (!trial_has_gradient(t, slot)) continue;
    for (int64_t i = 0; i < count; ++i) squares += param->noise[i];
    param->rounding = norm(change->params[slot], count) + sqrt(squares);
  }
}

/* What rounding costs the gradients: of their own values, of the O and, where a score makes it
   large, the LSE that backward was handed, whose own limits judge them, of the score, and on a GPU
   of P and of the dS that this O gives: one backward with all of it, since what rounds dS depends
   on D. A change of D acts as that much dLSE would. */
static fa_status round_gradients(trial *t) {
  const gradients wanted = wanted_gradients(t);
  reference_problem in = computes_rounded(t) ? rounded_reference_of(t) : reference_of(t);
  double *delta = NULL;
  gradients change;
  fa_status status = create_gradients(&change, t);
  if (!status) status = trial_allocate(&delta, &t->dense[TRIAL_LSE]);
  if (status) goto cleanup;
  error_of_delta(t, delta);
  for (int64_t i = 0; in.dlse && i < view_count(t->dense[TRIAL_LSE].extent); ++i)
    delta[i] += in.dlse[i];
  in.dlse = delta;
  if (oracle_has_score(t->oracle)) in.lse = t->values[TRIAL_LSE];
  status = compute_gradients(t, &in, &change);
  if (status) goto cleanup;
  for (int i = 0; i < INPUTS; ++i) {
    const view *shape = &t->dense[input_gradients[i]];
    subtract(change.inputs[i], wanted.inputs[i], view_count(shape->extent));
    t->rounding[input_gradients[i]] = compare_rounding(wanted.inputs[i], change.inputs[i], shape);
  }
  for (int slot = 0; slot < t->drawn.count; ++slot)
    if (trial_has_gradient(t, slot))
      subtract(change.params[slot], wanted.params[slot],
               view_count(t->drawn.items[slot].shape.extent));
  round_params(t, &change);
cleanup:
  free_gradients(&change);
  free(delta);
  return status;
}

/* ---- The three passes ----------------------------------------------------------------------- */

/* D = rowsum(dO * O) - dLSE of the O that the kernel was given. */
static void reference_preprocess(trial *t) {
  const view *dout = &t->dense[TRIAL_DOUT], *rows = &t->dense[TRIAL_D];
  const double *o = t->values[TRIAL_O], *dlse = t->values[TRIAL_DLSE];
  double squares = 0;
  int64_t at[4] = {0};
  if (view_count(rows->extent) == 0) return;
  do {
    int64_t row = view_index(rows, at), column[4] = {at[0], at[1], at[2], 0};
    double sum = dlse ? -dlse[row] : 0, size = fabs(sum);
    for (; column[3] < dout->extent[3]; ++column[3]) {
      double term = t->values[TRIAL_DOUT][view_index(dout, column)] * o[view_index(dout, column)];
      sum += term;
      size += fabs(term);
    }
    t->wanted[TRIAL_D][row] = sum;
    squares += size * size;
  } while (view_next(at, rows->extent));
  t->rounding[TRIAL_D] = f32_sum * sqrt(squares);
}

fa_status trial_reference(trial *t) {
  reference_problem in = reference_of(t);
  fa_status status = reference_forward(&in, t->wanted[TRIAL_O], t->wanted[TRIAL_LSE]);
  if (!status) status = round_outputs(t);
  if (!status && t->pass == FA_PRE) reference_preprocess(t);
  if (status || t->pass != FA_BWD) return status;
  gradients wanted = wanted_gradients(t);
  status = compute_gradients(t, &in, &wanted);
  return status ? status : round_gradients(t);
}
