/* trial.c: the course of a trial: kernels, inputs, launches, reference, comparison. */
#include "trial.h"

#include "buffer.h"
#include "compare.h"
#include "gen/error.h"
#include "gen/render.h"
#include "gen/spec.h"
#include "layout.h"
#include "oracle.h"
#include "random.h"
#include "reference.h"
#include "storage.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct trial {
  fa_context *context;
  const trial_options *options;
  fa_spec spec; /* canonical */
  double softmax_scale;
  int pass, fill;
  const fa_kernel *forward, *kernel; /* kernel: NULL in a forward trial */
  view dense[TRIAL_TENSORS];         /* shapes of `values` */
  double *values[TRIAL_TENSORS];     /* inputs as given, outputs as found */
  double *wanted[TRIAL_TENSORS];
  double rounding[TRIAL_TENSORS];
  placement places[TRIAL_TENSORS];
  buffer buffers[TRIAL_TENSORS];
  buffer workspaces[2]; /* of forward and kernel */
  fa_param *params;
  oracle *oracle;
  const char *damaged;
} trial;

static const char *const names[TRIAL_TENSORS] = {"Q",   "K",  "V",  "dO", "dLSE", "O",
                                                 "LSE", "dQ", "dK", "dV", "D"};

const char *trial_tensor_name(trial_tensor tensor) {
  return names[tensor];
}

static int is_input(trial_tensor tensor) {
  return tensor <= TRIAL_DLSE;
}

/* Whether the trial has this tensor at all. */
static int is_used(const trial *t, int tensor) {
  switch (tensor) {
  case TRIAL_DOUT:
    return t->pass != FA_FWD;
  case TRIAL_DLSE:
    return t->pass != FA_FWD && t->options->with_dlse;
  case TRIAL_DQ:
  case TRIAL_DK:
  case TRIAL_DV:
    return t->pass == FA_BWD;
  case TRIAL_D:
    return t->pass == FA_PRE;
  default:
    return 1;
  }
}

/* ---- Sizes ------------------------------------------------------------------------------- */

static fa_status check_size(const char *name, int64_t value) {
  if (value >= 0 && value <= INT32_MAX) return FA_OK;
  return fail(FA_INVALID, "%s: %lld; allowed 0 to %d", name, (long long)value, INT32_MAX);
}

static fa_status check_sizes(const cli_sizes *sizes, int group) {
  fa_status status = check_size("batch", sizes->batch);
  if (!status) status = check_size("heads_q", sizes->heads_q);
  if (!status) status = check_size("heads_kv", sizes->heads_kv);
  if (!status) status = check_size("seqlen_q", sizes->seqlen_q);
  if (!status) status = check_size("seqlen_k", sizes->seqlen_k);
  if (!status && sizes->heads_q != sizes->heads_kv * group)
    return fail(FA_INVALID, "heads_q: %lld; allowed %d times heads_kv %lld, the group of the spec",
                (long long)sizes->heads_q, group, (long long)sizes->heads_kv);
  return status;
}

/* Refuses what could not be counted in bytes, gaps of the layouts and doubles included. */
static fa_status check_count(trial_tensor tensor, const int64_t extent[4]) {
  double count = 1;
  for (int axis = 0; axis < 4; ++axis) count *= (double)extent[axis];
  if (count < ldexp(1, 44)) return FA_OK;
  return fail(FA_NO_MEMORY, "%s: %.3g elements; at most 2^44 can be checked", names[tensor], count);
}

static fa_status set_shapes(trial *t) {
  fa_status status = FA_OK;
  layout_shapes(t->dense, &t->spec, &t->options->sizes);
  for (int i = 0; i < TRIAL_TENSORS && !status; ++i) status = check_count(i, t->dense[i].extent);
  return status;
}

/* ---- Kernels and oracle ------------------------------------------------------------------ */

/* The kernel of one pass, on the target that the first one found ran on. */
static fa_status get_kernel(trial *t, const fa_kernel **out, int pass) {
  fa_kernel_info info = FA_KERNEL_INFO_INIT;
  fa_spec spec = t->options->spec;
  spec.pass = pass;
  if (t->spec.target != FA_TARGET_BEST) spec.target = t->spec.target;
  fa_status status = fa_get_kernel(out, t->context, &spec);
  if (!status) status = fa_kernel_info_get(&info, *out);
  if (!status) t->spec.target = info.target;
  return status;
}

static fa_status get_oracle(trial *t) {
  render_result rendered = {0};
  const char *overlay = t->options->overlay;
  fa_spec spec = t->options->spec, canonical = FA_SPEC_INIT;
  if (!overlay) overlay = getenv("FA_TEMPLATE_DIR");
  spec.pass = FA_FWD;
  spec.target = t->spec.target;
  fa_status status = spec_canonicalise(&canonical, &spec);
  if (!status) status = render_spec(&rendered, &canonical, overlay);
  oracle_words words = {rendered.keep, rendered.score, ""};
  if (!status) status = oracle_compile(&t->oracle, &words, &t->options->sizes, NULL, 0);
  render_free(&rendered);
  return status;
}

static fa_status prepare(trial *t) {
  fa_status status = spec_canonicalise(&t->spec, &t->options->spec);
  if (status) return status;
  t->pass = t->spec.pass;
  t->fill = t->options->poison ? 0xff : 0; /* all ones is a NaN in every format */
  t->softmax_scale = t->options->sizes.softmax_scale;
  if (t->softmax_scale == 0) t->softmax_scale = (float)(1 / sqrt(t->spec.dim_qk));
  status = check_sizes(&t->options->sizes, t->spec.group);
  if (!status) status = set_shapes(t);
  if (!status) status = get_kernel(t, &t->forward, FA_FWD);
  if (!status && t->pass != FA_FWD) status = get_kernel(t, &t->kernel, t->pass);
  if (!status) status = get_oracle(t);
  return status;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static double draw(const trial *t, trial_tensor tensor, const int64_t at[4]) {
  const trial_options *options = t->options;
  double value = options->fill ? options->fill(options->fill_with, tensor, at)
                               : random_normal(options->sizes.seed, (uint64_t)tensor, at);
  return storage_round(value, t->dense[tensor].dtype);
}

static fa_status fill_input(trial *t, trial_tensor tensor) {
  const view *shape = &t->dense[tensor];
  const placement *place = &t->places[tensor];
  int64_t at[4] = {0};
  if (view_count(shape->extent) == 0) return FA_OK;
  do {
    double value = draw(t, tensor, at);
    t->values[tensor][view_index(shape, at)] = value;
    buffer_write(&t->buffers[place->buffer], &place->tensor, at, value);
  } while (view_next(at, shape->extent));
  return buffer_upload(&t->buffers[place->buffer]);
}

static fa_status allocate_values(double **out, const view *shape) {
  size_t count = (size_t)view_count(shape->extent);
  *out = calloc(count ? count : 1, sizeof **out);
  return *out ? FA_OK : fail(FA_NO_MEMORY, "no host memory for %zu doubles", count);
}

static fa_status allocate_tensors(trial *t) {
  fa_status status = FA_OK;
  size_t bytes[TRIAL_TENSORS];
  layout_place(t->places, bytes, t->dense, t->options->layout, t->spec.target == FA_TARGET_CPU);
  for (int i = 0; i < TRIAL_TENSORS && !status; ++i) {
    if (!is_used(t, i)) continue;
    status = allocate_values(&t->values[i], &t->dense[i]);
    if (!status && !is_input(i)) status = allocate_values(&t->wanted[i], &t->dense[i]);
    if (!status && i != TRIAL_D && t->places[i].buffer == i)
      status = buffer_create(&t->buffers[i], t->context, bytes[i], t->fill);
  }
  for (int i = 0; i < TRIAL_TENSORS && !status; ++i)
    if (is_used(t, i) && is_input(i)) status = fill_input(t, i);
  return status;
}

static void *address(const trial *t, trial_tensor tensor) {
  const placement *place = &t->places[tensor];
  if (!is_used(t, tensor)) return NULL;
  return buffer_payload(&t->buffers[place->buffer], place->tensor.offset);
}

static fa_tensor argument(const trial *t, trial_tensor tensor) {
  const int64_t *stride = t->places[tensor].tensor.stride;
  return (fa_tensor){address(t, tensor), stride[0], stride[1], stride[2]};
}

/* ---- Launches ---------------------------------------------------------------------------- */

static fa_status set_params(trial *t) {
  const cli_sizes *sizes = &t->options->sizes;
  t->params = calloc(sizes->num_params + 1, sizeof *t->params);
  if (!t->params) return fail(FA_NO_MEMORY, "no memory for %zu parameters", sizes->num_params);
  for (size_t i = 0; i < sizes->num_params; ++i) {
    t->params[i].name = sizes->params[i].name;
    t->params[i].value = sizes->params[i].value;
  }
  return FA_OK;
}

static void set_arguments(const trial *t, fa_args *args) {
  const cli_sizes *sizes = &t->options->sizes;
  args->batch = sizes->batch;
  args->heads_q = sizes->heads_q;
  args->heads_kv = sizes->heads_kv;
  args->seqlen_q = sizes->seqlen_q;
  args->seqlen_k = sizes->seqlen_k;
  args->softmax_scale = sizes->softmax_scale;
  args->q = argument(t, TRIAL_Q);
  args->k = argument(t, TRIAL_K);
  args->v = argument(t, TRIAL_V);
  args->o = argument(t, TRIAL_O);
  args->lse = address(t, TRIAL_LSE);
  if (t->pass == FA_FWD) return;
  args->dout = argument(t, TRIAL_DOUT);
  args->dlse = address(t, TRIAL_DLSE);
  if (t->pass == FA_PRE) return;
  args->dq = argument(t, TRIAL_DQ);
  args->dk = argument(t, TRIAL_DK);
  args->dv = argument(t, TRIAL_DV);
}

static fa_status launch(trial *t, const fa_kernel *kernel, buffer *workspace) {
  fa_args args = FA_ARGS_INIT;
  size_t bytes = 0;
  set_arguments(t, &args);
  args.params = t->params;
  args.num_params = t->options->sizes.num_params;
  fa_status status = fa_workspace_size(&bytes, kernel, &args);
  if (!status) status = buffer_create(workspace, t->context, bytes, t->fill);
  if (status) return status;
  args.workspace = buffer_payload(workspace, 0);
  args.workspace_size = bytes;
  return fa_launch(kernel, &args, NULL);
}

static void accept_tensor(trial *t, buffer *from, trial_tensor tensor) {
  const view *shape = &t->dense[tensor];
  int64_t at[4] = {0};
  if (view_count(shape->extent) == 0) return;
  do {
    double value = buffer_accept(from, &t->places[tensor].tensor, at);
    t->values[tensor][view_index(shape, at)] = value;
  } while (view_next(at, shape->extent));
}

/* Reads back one tensor buffer and the outputs in it. */
static fa_status collect_buffer(trial *t, int index) {
  buffer *memory = &t->buffers[index];
  if (!memory->device) return FA_OK;
  fa_status status = buffer_download(memory);
  if (status) return status;
  for (int i = TRIAL_O; i < TRIAL_D; ++i)
    if (is_used(t, i) && t->places[i].buffer == index) accept_tensor(t, memory, i);
  if (!buffer_intact(memory, 0)) t->damaged = names[index];
  return FA_OK;
}

static fa_status collect_workspace(trial *t, int index) {
  buffer *memory = &t->workspaces[index];
  if (!memory->device) return FA_OK;
  fa_status status = buffer_download(memory);
  if (status) return status;
  if (t->pass == FA_PRE && index == 1) accept_tensor(t, memory, TRIAL_D);
  if (!buffer_intact(memory, 1)) t->damaged = "workspace";
  return FA_OK;
}

static fa_status run_kernels(trial *t) {
  fa_status status = set_params(t);
  if (!status) status = launch(t, t->forward, &t->workspaces[0]);
  if (!status && t->kernel) status = launch(t, t->kernel, &t->workspaces[1]);
  for (int i = 0; i < TRIAL_TENSORS && !status; ++i) status = collect_buffer(t, i);
  for (int i = 0; i < 2 && !status; ++i) status = collect_workspace(t, i);
  return status;
}

/* ---- Reference and comparison ------------------------------------------------------------ */

static int keep(const void *with, const cli_pair *pair) {
  return oracle_keep(with, pair);
}

static double score(const void *with, const cli_pair *pair, double s, double *derivative) {
  return oracle_score(with, pair, s, derivative);
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
  in.with = t->oracle;
  in.progress = t->options->progress;
  in.progress_to = t->options->progress_to;
  return in;
}

/* An f32 sum is known to a few roundings of its largest terms, also where they cancel. */
static const double f32_sum = 2 * FLT_EPSILON;

/* The dLSE that changes D = rowsum(dO * O) - dLSE as much as the stored O's error does; of an O in
   f32, where the sum loses as much again, that as well. */
static void error_of_delta(const trial *t, double *delta) {
  const view *shape = &t->dense[TRIAL_O];
  const double *got = t->values[TRIAL_O], *wanted = t->wanted[TRIAL_O];
  const double *dout = t->values[TRIAL_DOUT], sum = shape->dtype == FA_F32 ? f32_sum : 0;
  int64_t at[4] = {0};
  if (view_count(shape->extent) == 0) return;
  do {
    int64_t i = view_index(shape, at), row[4] = {at[0], at[1], at[2], 0};
    double change = dout[i] * (wanted[i] - got[i]) + sum * fabs(dout[i] * wanted[i]);
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

static double to_f16(double value) {
  return storage_round(value, FA_F16);
}

static double to_bf16(double value) {
  return storage_round(value, FA_BF16);
}

/* The reference as a GPU computes: P and dS reach the tensor cores in the dtype. */
static reference_problem rounded_reference_of(const trial *t) {
  reference_problem in = reference_of(t);
  in.rounded = t->spec.dtype == FA_F16 ? to_f16 : to_bf16;
  return in;
}

static int rounds_operands(const trial *t) {
  return t->spec.target != FA_TARGET_CPU && t->spec.dtype != FA_F32;
}

/* change += other - wanted */
static void add_change(double *change, const double *other, const double *wanted, int64_t count) {
  for (int64_t i = 0; i < count; ++i) change[i] += other[i] - wanted[i];
}

/* What rounding costs O: of its own values and, on a GPU, of P. */
static fa_status round_output(trial *t) {
  const view *shape = &t->dense[TRIAL_O];
  const double *wanted = t->wanted[TRIAL_O];
  double *change = NULL, *other = NULL, *lse = NULL;
  fa_status status = allocate_values(&change, shape);
  if (!status && rounds_operands(t)) {
    reference_problem in = rounded_reference_of(t);
    status = allocate_values(&other, shape);
    if (!status) status = allocate_values(&lse, &t->dense[TRIAL_LSE]);
    if (!status) status = reference_forward(&in, other, lse);
    if (!status) add_change(change, other, wanted, view_count(shape->extent));
  }
  if (!status) t->rounding[TRIAL_O] = compare_rounding(wanted, change, shape);
  free(change);
  free(other);
  free(lse);
  return status;
}

/* Adds to the changes of the gradients what rounding P and dS on a GPU costs them. */
static fa_status round_operands(const trial *t, const trial_tensor gradients[3],
                                double *const change[3]) {
  reference_problem in = rounded_reference_of(t);
  double *other[3] = {NULL, NULL, NULL};
  fa_status status = FA_OK;
  for (int i = 0; i < 3 && !status; ++i)
    status = allocate_values(&other[i], &t->dense[gradients[i]]);
  if (!status) status = reference_backward(&in, other[0], other[1], other[2]);
  for (int i = 0; i < 3 && !status; ++i)
    add_change(change[i], other[i], t->wanted[gradients[i]],
               view_count(t->dense[gradients[i]].extent));
  for (int i = 0; i < 3; ++i) free(other[i]);
  return status;
}

/* What rounding costs the gradients: of their own values, of the O that backward was handed, whose
   own limit judges it, and on a GPU of P and dS. A change of D acts as that much dLSE would, with no
   dO at all. */
static fa_status round_gradients(trial *t) {
  static const trial_tensor gradients[3] = {TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  reference_problem in = reference_of(t);
  double *delta = NULL, *dout = NULL, *out[3] = {NULL, NULL, NULL};
  fa_status status = allocate_values(&delta, &t->dense[TRIAL_LSE]);
  if (!status) status = allocate_values(&dout, &t->dense[TRIAL_DOUT]);
  for (int i = 0; i < 3 && !status; ++i) status = allocate_values(&out[i], &t->dense[gradients[i]]);
  if (status) goto cleanup;
  error_of_delta(t, delta);
  in.dout = dout;
  in.dlse = delta;
  status = reference_backward(&in, out[0], out[1], out[2]);
  if (!status && rounds_operands(t)) status = round_operands(t, gradients, out);
  for (int i = 0; i < 3 && !status; ++i)
    t->rounding[gradients[i]] =
        compare_rounding(t->wanted[gradients[i]], out[i], &t->dense[gradients[i]]);
cleanup:
  for (int i = 0; i < 3; ++i) free(out[i]);
  free(delta);
  free(dout);
  return status;
}

static fa_status run_reference(trial *t) {
  reference_problem in = reference_of(t);
  double **wanted = t->wanted;
  fa_status status = reference_forward(&in, wanted[TRIAL_O], wanted[TRIAL_LSE]);
  if (!status) status = round_output(t);
  t->rounding[TRIAL_LSE] = rounding_of_lse(t);
  if (status || t->pass != FA_BWD) return status;
  status = reference_backward(&in, wanted[TRIAL_DQ], wanted[TRIAL_DK], wanted[TRIAL_DV]);
  return status ? status : round_gradients(t);
}

/* D = rowsum(dO * O) - dLSE of the O that the kernel was given. */
static void reference_preprocess(trial *t) {
  const view *dout = &t->dense[TRIAL_DOUT], *rows = &t->dense[TRIAL_D];
  const double *o = t->values[TRIAL_O], *dlse = t->values[TRIAL_DLSE];
  double squares = 0;
  int64_t at[4] = {0};
  if (t->pass != FA_PRE || view_count(rows->extent) == 0) return;
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

/* Hands the values of one output over to the result. */
static void report(trial_result *out, trial *t, trial_tensor tensor) {
  trial_output *output = &out->outputs[out->num_outputs++];
  output->tensor = tensor;
  memcpy(output->extent, t->dense[tensor].extent, sizeof output->extent);
  memcpy(output->stride, t->dense[tensor].stride, sizeof output->stride);
  output->got = t->values[tensor];
  output->wanted = t->wanted[tensor];
  output->rounding = t->rounding[tensor];
  t->values[tensor] = t->wanted[tensor] = NULL;
  compare_output(output, &t->dense[tensor]);
}

static fa_status report_all(trial_result *out, trial *t) {
  fa_kernel_info info = FA_KERNEL_INFO_INIT;
  fa_status status = fa_kernel_info_get(&info, t->kernel ? t->kernel : t->forward);
  if (status) return status;
  strncpy(out->name, info.name, sizeof out->name - 1);
  out->target = info.target;
  out->softmax_scale = t->softmax_scale;
  out->damaged = t->damaged;
  for (int i = TRIAL_O; i < TRIAL_TENSORS; ++i)
    if (is_used(t, i)) report(out, t, i);
  return FA_OK;
}

static void free_trial(trial *t) {
  for (int i = 0; i < TRIAL_TENSORS; ++i) {
    free(t->values[i]);
    free(t->wanted[i]);
    buffer_free(&t->buffers[i]);
  }
  for (int i = 0; i < 2; ++i) buffer_free(&t->workspaces[i]);
  free(t->params);
  oracle_free(t->oracle);
}

fa_status trial_run(trial_result *out, fa_context *context, const trial_options *options) {
  trial t = {.context = context, .options = options, .spec = FA_SPEC_INIT};
  memset(out, 0, sizeof *out);
  fa_status status = prepare(&t);
  if (!status) status = allocate_tensors(&t);
  if (!status) status = run_kernels(&t);
  if (!status) status = run_reference(&t);
  if (!status) reference_preprocess(&t);
  if (!status) status = report_all(out, &t);
  free_trial(&t);
  return status;
}

int64_t trial_index(const trial_output *output, int64_t batch, int64_t row, int64_t head,
                    int64_t column) {
  const int64_t *stride = output->stride;
  return batch * stride[0] + row * stride[1] + head * stride[2] + column * stride[3];
}

void trial_free(trial_result *result) {
  for (int i = 0; i < result->num_outputs; ++i) {
    free(result->outputs[i].got);
    free(result->outputs[i].wanted);
  }
  memset(result, 0, sizeof *result);
}
