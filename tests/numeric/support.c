/* support.c: see support.h. */
#include "support.h"

#include "runtime/cli/buffer.h"
#include "runtime/cli/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const support_overlay = FAGEN_SOURCE_DIR "/tests/numeric/overlay";

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

/* The largest relative error of each output, by dtype, over all trials of the program. */
static double largest[FA_F32 + 1][TRIAL_TENSORS];

fa_context *support_context(void) {
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CPU;
  options.threads = 2;
  options.template_dir = support_overlay;
  if (!shared) expect_ok(fa_context_create(&shared, &options));
  return shared;
}

int support_end(void **state) {
  static const char *const dtypes[] = {"", "f16", "bf16", "f32"};
  (void)state;
  for (int dtype = FA_F16; dtype <= FA_F32; ++dtype)
    for (int tensor = TRIAL_O; tensor < TRIAL_TENSORS; ++tensor)
      if (largest[dtype][tensor] > 0)
        print_message("largest error, %-4s %-4s %.2e\n", dtypes[dtype], trial_tensor_name(tensor),
                      largest[dtype][tensor]);
  fa_context_destroy(shared);
  shared = NULL;
  return 0;
}

trial_options trial_of(const char *words, int64_t batch, int64_t heads, int64_t seqlen_q,
                       int64_t seqlen_k) {
  trial_options options = {.spec = FA_SPEC_INIT, .overlay = support_overlay, .poison = 1};
  expect_ok(fa_spec_parse(&options.spec, words));
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
      text, trial_tensor_name(output->tensor), output->error, limit, (int)at[0], (int)at[1],
      (int)at[2], (int)at[3], output->got[index], output->wanted[index], (int)output->bad);
}

void assert_result_right(const trial_options *options, const trial_result *result) {
  char text[512];
  int dtype = options->spec.dtype;
  describe(text, sizeof text, options);
  for (int i = 0; i < result->num_outputs; ++i) {
    const trial_output *output = &result->outputs[i];
    if (!output->reference_zero && output->error > largest[dtype][output->tensor])
      largest[dtype][output->tensor] = output->error;
    assert_output_right(text, output, dtype);
  }
  if (result->damaged) fail_msg("%s: memory around %s was written to", text, result->damaged);
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

int same_bits(const trial_result *a, const trial_result *b, trial_tensor tensor) {
  const trial_output *x = output_of(a, tensor), *y = output_of(b, tensor);
  size_t count = (size_t)view_count(x->extent);
  assert_int_equal(count, view_count(y->extent));
  return !memcmp(x->got, y->got, count * sizeof *x->got);
}

void assert_same_bits(const trial_result *a, const trial_result *b) {
  assert_int_equal(a->num_outputs, b->num_outputs);
  for (int i = 0; i < a->num_outputs; ++i)
    if (!same_bits(a, b, a->outputs[i].tensor))
      fail_msg("%s: not the same bits", trial_tensor_name(a->outputs[i].tensor));
}
