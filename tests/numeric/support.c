/* support.c: see support.h. */
#include "support.h"

#include "runtime/cli/buffer.h"
#include "runtime/cli/check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside the sources, or below the folder that the test is run in. */
const char *support_overlay(void) {
  static const char built[] = FAGEN_SOURCE_DIR "/tests/numeric/overlay";
  return access(built, R_OK) ? "tests/numeric/overlay" : built;
}

/* ---- Values ------------------------------------------------------------------------------ */

void assert_near(const char *what, double got, double wanted, double tolerance) {
  if (got == wanted || fabs(got - wanted) <= tolerance) return;
  fail_msg("%s: got %.10g, wanted %.10g, tolerance %.3g", what, got, wanted, tolerance);
}

double closed_form(const void *with, trial_tensor tensor, const int64_t at[4]) {
  static const int64_t shift[TRIAL_TENSORS] = {
      [TRIAL_Q] = 0, [TRIAL_K] = 2, [TRIAL_V] = 6, [TRIAL_DOUT] = 4};
  (void)with;
  if (tensor == TRIAL_DLSE) return 0;
  return (double)((7 * at[2] + 5 * at[1] + 3 * at[3] + shift[tensor]) % 11 - 5) / 8;
}

double checksum(const double *values, const int64_t extent[4], const int64_t stride[4]) {
  double sum = 0, index = 0;
  for (int64_t head = 0; head < extent[2]; ++head)
    for (int64_t row = 0; row < extent[1]; ++row)
      for (int64_t column = 0; column < extent[3]; ++column) {
        double value = values[head * stride[2] + row * stride[1] + column * stride[3]];
        index += 1;
        if (value != -INFINITY) sum += index * value;
      }
  return sum;
}

/* ---- Trials ------------------------------------------------------------------------------ */

static fa_context *shared;

/* The largest relative error of each output, by dtype, over all trials of the program; of gradients
   by parameters, which cancel, the largest share of the limit. */
static double largest[FA_F32 + 1][TRIAL_PARAM + 1];

static fa_status open_context(fa_context **out, int threads) {
  fa_options options = FA_OPTIONS_INIT;
  options.backend = on_gpu() ? FA_CUDA : FA_CPU;
  options.threads = on_gpu() ? 0 : threads;
  options.template_dir = support_overlay();
  return fa_context_create(out, &options);
}

fa_context *support_context(void) {
  if (!shared) expect_ok(open_context(&shared, 2));
  return shared;
}

fa_context *support_new_context(int threads) {
  fa_context *context = NULL;
  expect_ok(open_context(&context, threads));
  return context;
}

/* Whether this status means that the machine lacks what the target runs on. */
static int is_absence(fa_status status) {
  return status == FA_NO_DRIVER || status == FA_UNSUPPORTED;
}

int support_begin(void **state) {
  (void)state;
  const unsigned seconds_cpu = 120, seconds_gpu = 900; /* where kernels take a second to compile */
  alarm(on_gpu() ? seconds_gpu : seconds_cpu);
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  const char *reason = NULL;
  fa_status status = open_context(&shared, 2);
  if (is_absence(status) && on_gpu()) reason = fa_error_message();
  if (!reason) expect_ok(status);
  if (!reason) expect_ok(fa_context_info_get(&info, shared));
  if (target_of_tests() == FA_TARGET_SM90 && !reason && info.arch != 90)
    reason = "sm90 runs on compute capability 9.0";
  if (!reason) return 0;
  printf("SKIP %s: %s\n", program_invocation_short_name, reason);
  exit(77);
}

int support_end(void **state) {
  static const char *const dtypes[] = {"", "f16", "bf16", "f32"};
  (void)state;
  for (int dtype = FA_F16; dtype <= FA_F32; ++dtype)
    for (int tensor = TRIAL_O; tensor < TRIAL_TENSORS; ++tensor)
      if (largest[dtype][tensor] > 0)
        print_message("largest error, %-4s %-4s %.2e\n", dtypes[dtype], trial_tensor_name(tensor),
                      largest[dtype][tensor]);
  for (int dtype = FA_F16; dtype <= FA_F32; ++dtype)
    if (largest[dtype][TRIAL_PARAM] > 0)
      print_message("largest share of the limit, %-4s gradients by parameters %.2f\n",
                    dtypes[dtype], largest[dtype][TRIAL_PARAM]);
  fa_context_destroy(shared);
  shared = NULL;
  return 0;
}

trial_options trial_of(const char *words, int64_t batch, int64_t heads, int64_t seqlen_q,
                       int64_t seqlen_k) {
  char on_the_target[FA_NAME_MAX];
  trial_options options = {.spec = FA_SPEC_INIT, .overlay = support_overlay(), .poison = 1};
  target_words(on_the_target, words);
  expect_ok(fa_spec_parse(&options.spec, on_the_target));
  options.sizes.batch = batch;
  options.sizes.heads_q = heads;
  options.sizes.heads_kv = heads / (options.spec.group ? options.spec.group : 1);
  options.sizes.seqlen_q = seqlen_q;
  options.sizes.seqlen_k = seqlen_k;
  options.sizes.seed = 1;
  return options;
}

static void describe(char *text, size_t bytes, const trial_options *options) {
  static const char *const layouts[] = {"bshd", "bhsd", "packed", "wide"};
  const cli_sizes *n = &options->sizes;
  char words[FA_NAME_MAX] = "";
  fa_spec_print(words, sizeof words, &options->spec);
  snprintf(text, bytes, "%s, batch %d, heads %d/%d, seqlen %d x %d, scale %g, seed %d, %s%s", words,
           (int)n->batch, (int)n->heads_q, (int)n->heads_kv, (int)n->seqlen_q, (int)n->seqlen_k,
           n->softmax_scale, (int)n->seed, layouts[options->layout],
           options->with_dlse ? ", dLSE" : "");
}

void run_trial_on(trial_result *out, fa_context *context, const trial_options *options) {
  char text[512];
  fa_status status = trial_run(out, context, options);
  if (status == FA_OK) return;
  describe(text, sizeof text, options);
  fail_msg("%s: %s: %s", text, fa_status_name(status), fa_error_message());
}

void run_trial(trial_result *out, const trial_options *options) {
  run_trial_on(out, support_context(), options);
}

/* Tests have at most 1000 terms in a sum, for which f32 is known to do better than the limit that
   holds for any length. */
static double test_limit(const trial_output *output, int dtype) {
  const double f32_limit = 2e-6;
  double limit = check_output_limit(output, dtype);
  return limit == 1e-5 ? fmax(f32_limit, 2 * output->rounding) : limit;
}

static void assert_output_right(const char *text, const trial_output *output, int dtype) {
  const int64_t *at = output->max_at;
  double limit = test_limit(output, dtype);
  if (check_output_right(output, dtype) && output->error <= limit) return;
  int64_t index = trial_index(output, at[0], at[1], at[2], at[3]);
  fail_msg(
      "%s: %s error %.3e, limit %.1e; at [%d, %d, %d, %d] got %.9g, wanted %.9g; %d not finite",
      text, output->name, output->error, limit, (int)at[0], (int)at[1], (int)at[2], (int)at[3],
      output->got[index], output->wanted[index], (int)output->bad);
}

void assert_result_right(const trial_options *options, const trial_result *result) {
  char text[2048];
  int dtype = options->spec.dtype;
  describe(text, sizeof text, options);
  size_t used = strlen(text);
  if (result->params[0]) snprintf(text + used, sizeof text - used, ", %s", result->params);
  for (int i = 0; i < result->num_outputs; ++i) {
    const trial_output *output = &result->outputs[i];
    double error = output->error;
    if (output->tensor == TRIAL_PARAM) error /= test_limit(output, dtype);
    if (!output->reference_zero && error > largest[dtype][output->tensor])
      largest[dtype][output->tensor] = error;
    assert_output_right(text, output, dtype);
  }
  if (result->damaged[0]) fail_msg("%s: memory around %s was written to", text, result->damaged);
}

void assert_trial_right(const trial_options *options) {
  trial_result result;
  run_trial(&result, options);
  assert_result_right(options, &result);
  trial_free(&result);
}

const trial_output *output_of(const trial_result *result, trial_tensor tensor) {
  for (int i = 0; i < result->num_outputs; ++i)
    if (result->outputs[i].tensor == tensor) return &result->outputs[i];
  fail_msg("the trial has no output %s", trial_tensor_name(tensor));
  return result->outputs;
}

double got_at(const trial_result *result, trial_tensor tensor, int64_t batch, int64_t row,
              int64_t head, int64_t column) {
  const trial_output *output = output_of(result, tensor);
  return output->got[trial_index(output, batch, row, head, column)];
}

int is_repeatable(int target, int deterministic, int grouped, trial_tensor tensor) {
  if (target == FA_TARGET_CPU || deterministic) return 1;
  if (tensor == TRIAL_DK || tensor == TRIAL_DV) return target != FA_TARGET_SM90 || !grouped;
  return tensor != TRIAL_DQ && tensor != TRIAL_PARAM;
}

void assert_same_sum(trial_tensor tensor, double got, double wanted, double scale, int dtype) {
  const double rounding = dtype == FA_F16 ? 0x1p-10 : 0x1p-7;
  double tolerance = rounding * fabs(wanted) + 4e-6 * scale;
  assert_near(trial_tensor_name(tensor), got, wanted, tolerance);
}

static int64_t count_of(const trial_output *x, const trial_output *y) {
  int64_t count = view_count(x->extent);
  assert_int_equal(count, view_count(y->extent));
  return count;
}

static int same_values(const trial_output *x, const trial_output *y) {
  return !memcmp(x->got, y->got, (size_t)count_of(x, y) * sizeof *x->got);
}

int same_bits(const trial_result *a, const trial_result *b, trial_tensor tensor) {
  return same_values(output_of(a, tensor), output_of(b, tensor));
}

static void assert_same_sums(const trial_output *x, const trial_output *y, int dtype) {
  int64_t count = count_of(x, y);
  double scale = 0;
  for (int64_t i = 0; i < count; ++i) scale = fmax(scale, fabs(y->got[i]));
  for (int64_t i = 0; i < count; ++i)
    assert_same_sum(x->tensor, x->got[i], y->got[i], scale, dtype);
}

void assert_same_bits(const trial_result *a, const trial_result *b) {
  assert_int_equal(a->num_outputs, b->num_outputs);
  for (int i = 0; i < a->num_outputs; ++i) {
    const trial_output *x = &a->outputs[i], *y = &b->outputs[i];
    assert_string_equal(x->name, y->name);
    if (!is_repeatable(a->target, strstr(a->name, "_det") != NULL, strstr(a->name, "_gqa") != NULL,
                       x->tensor))
      assert_same_sums(x, y, strstr(a->name, "_bf16") ? FA_BF16 : FA_F16);
    else if (!same_values(x, y))
      fail_msg("%s: %s: not the same bits", a->name, x->name);
  }
}
