/* trial.c: the course of a trial: kernels, inputs, launches, reference, comparison. */
#include "trial_state.h"

#include "compare.h"
#include "gen/error.h"
#include "gen/render.h"
#include "gen/spec.h"
#include "random.h"
#include "storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  oracle_param params[PARAMS_MAX];
  const char *overlay = t->options->overlay;
  fa_spec spec = t->options->spec, canonical = FA_SPEC_INIT;
  if (!overlay) overlay = getenv("FA_TEMPLATE_DIR");
  spec.pass = FA_FWD;
  spec.target = t->spec.target;
  fa_status status = spec_canonicalise(&canonical, &spec);
  if (!status) status = render_spec(&rendered, &canonical, overlay);
  if (!status) status = drawn_make(&t->drawn, &rendered.params, &t->options->sizes);
  if (!status) drawn_for_oracle(params, &t->drawn);
  oracle_words words = {rendered.keep, rendered.score, rendered.sink};
  if (!status)
    status = oracle_compile(&t->oracle, &words, &t->options->sizes, params, (size_t)t->drawn.count);
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

fa_status trial_allocate(double **out, const view *shape) {
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
    status = trial_allocate(&t->values[i], &t->dense[i]);
    if (!status && !is_input(i)) status = trial_allocate(&t->wanted[i], &t->dense[i]);
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

/* A `pre` kernel has no variants, and so no parameters. */
static fa_status launch(trial *t, const fa_kernel *kernel, int pass, buffer *workspace) {
  fa_args args = FA_ARGS_INIT;
  fa_param params[PARAMS_MAX];
  size_t bytes = 0;
  set_arguments(t, &args);
  trial_params_set(params, t, pass);
  args.params = params;
  args.num_params = pass == FA_PRE ? 0 : (size_t)t->drawn.count;
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
  fa_status status = launch(t, t->forward, FA_FWD, &t->workspaces[0]);
  if (!status && t->kernel) status = launch(t, t->kernel, t->pass, &t->workspaces[1]);
  for (int i = 0; i < TRIAL_TENSORS && !status; ++i) status = collect_buffer(t, i);
  for (int i = 0; i < 2 && !status; ++i) status = collect_workspace(t, i);
  return status ? status : trial_params_collect(t);
}

/* ---- Report ------------------------------------------------------------------------------- */

void trial_report(trial_output *out, const view *shape, double *got, double *wanted,
                  double rounding) {
  memcpy(out->extent, shape->extent, sizeof out->extent);
  memcpy(out->stride, shape->stride, sizeof out->stride);
  out->got = got;
  out->wanted = wanted;
  out->rounding = rounding;
  compare_output(out, shape);
}

/* Hands the values of one output over to the result. */
static void report_tensor(trial_result *out, trial *t, trial_tensor tensor) {
  trial_output *output = &out->outputs[out->num_outputs++];
  output->tensor = tensor;
  strcpy(output->name, names[tensor]);
  trial_report(output, &t->dense[tensor], t->values[tensor], t->wanted[tensor],
               t->rounding[tensor]);
  t->values[tensor] = t->wanted[tensor] = NULL;
}

static void describe_params(trial_result *out, const trial *t) {
  for (int slot = 0; slot < t->drawn.count; ++slot) {
    size_t used = strlen(out->params);
    snprintf(out->params + used, sizeof out->params - used, "%s", slot ? ", " : "");
    used = strlen(out->params);
    drawn_print(out->params + used, sizeof out->params - used, &t->drawn.items[slot]);
  }
}

static fa_status report_all(trial_result *out, trial *t) {
  fa_kernel_info info = FA_KERNEL_INFO_INIT;
  fa_status status = fa_kernel_info_get(&info, t->kernel ? t->kernel : t->forward);
  if (status) return status;
  strncpy(out->name, info.name, sizeof out->name - 1);
  out->target = info.target;
  out->softmax_scale = t->softmax_scale;
  snprintf(out->damaged, sizeof out->damaged, "%s", t->damaged ? t->damaged : "");
  describe_params(out, t);
  for (int i = TRIAL_O; i < TRIAL_TENSORS; ++i)
    if (is_used(t, i)) report_tensor(out, t, i);
  trial_params_report(out, t);
  return FA_OK;
}

static void free_trial(trial *t) {
  for (int i = 0; i < TRIAL_TENSORS; ++i) {
    free(t->values[i]);
    free(t->wanted[i]);
    buffer_free(&t->buffers[i]);
  }
  for (int i = 0; i < 2; ++i) buffer_free(&t->workspaces[i]);
  trial_params_free(t);
  oracle_free(t->oracle);
}

fa_status trial_run(trial_result *out, fa_context *context, const trial_options *options) {
  trial t = {.context = context, .options = options, .spec = FA_SPEC_INIT};
  memset(out, 0, sizeof *out);
  fa_status status = prepare(&t);
  if (!status) status = allocate_tensors(&t);
  if (!status) status = trial_params_create(&t);
  if (!status) status = run_kernels(&t);
  if (!status) status = trial_reference(&t);
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
