/* check.c: the body of `fagen check`: context, trial, table, verdict. */
#include "check.h"

#include "buffer.h"
#include "cli.h"
#include "progress.h"

#include <math.h>
#include <string.h>

/* Rounding P and O once each to 16 bits costs 2.2e-3 (bf16) and 2.8e-4 (f16) already. In f32 the
   error of a long sum decides: measured 1e-6 at 1000 terms, 4e-6 at 30000. */
double check_limit(int dtype, trial_tensor tensor) {
  int is_gradient =
      tensor == TRIAL_DQ || tensor == TRIAL_DK || tensor == TRIAL_DV || tensor == TRIAL_PARAM;
  if (tensor == TRIAL_LSE || tensor == TRIAL_D) return 1e-6;
  if (dtype == FA_F32) return 1e-5;
  if (dtype == FA_F16) return is_gradient ? 3.4e-4 : 3.0e-4;
  return is_gradient ? 2.7e-3 : 2.4e-3;
}

double check_output_limit(const trial_output *output, int dtype) {
  /* The noise of few elements is a small sample of what it may be. */
  const double elements = (double)view_count(output->extent);
  const double least = (1.25 + 3 / sqrt(fmax(elements, 1))) * output->rounding;
  double limit = check_limit(dtype, output->tensor);
  return least > limit ? least : limit;
}

int check_output_right(const trial_output *output, int dtype) {
  return output->bad == 0 && output->error <= check_output_limit(output, dtype);
}

static void show_progress(void *to, double done) {
  (void)to;
  progress_show("float64 reference", done);
}

static void print_problem(FILE *out, const trial_result *result, const cli_sizes *sizes) {
  fprintf(out,
          "%s: batch %lld, heads %lld, kv heads %lld, seqlen_q %lld, seqlen_k %lld, "
          "softmax_scale %.6g, seed %llu\n",
          result->name, (long long)sizes->batch, (long long)sizes->heads_q,
          (long long)sizes->heads_kv, (long long)sizes->seqlen_q, (long long)sizes->seqlen_k,
          result->softmax_scale, (unsigned long long)sizes->seed);
  if (result->params[0]) fprintf(out, "parameters: %s\n", result->params);
}

/* Columns that hold the name of every output. */
static int name_width(const trial_result *result) {
  int width = 7;
  for (int i = 0; i < result->num_outputs; ++i) {
    int length = (int)strlen(result->outputs[i].name);
    if (length > width) width = length;
  }
  return width;
}

static void print_heading(FILE *out, int width) {
  fprintf(out, "%-*s %9s %9s  %-8s %-8s %s\n", width, "output", "error", "limit", "measured",
          "verdict", "largest difference, at [batch, row, head, column]");
}

static void print_output(FILE *out, const trial_output *output, int dtype, int width) {
  const int64_t *at = output->max_at;
  fprintf(out, "%-*s %9.2e %9.2e  %-8s %-8s", width, output->name, output->error,
          check_output_limit(output, dtype), output->reference_zero ? "absolute" : "relative",
          check_output_right(output, dtype) ? "right" : "WRONG");
  if (view_count(output->extent) == 0) {
    fprintf(out, " no elements\n");
    return;
  }
  int64_t index = trial_index(output, at[0], at[1], at[2], at[3]);
  fprintf(out, " %.2e at [%lld, %lld, %lld, %lld]: got %.8g, wanted %.8g", output->max_error,
          (long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3],
          output->got[index], output->wanted[index]);
  if (output->bad) fprintf(out, "; %lld not finite", (long long)output->bad);
  fputc('\n', out);
}

/* The table, and whether all of it is right. */
static int print_result(FILE *out, const trial_result *result, const cli_sizes *sizes, int dtype) {
  int wrong = 0, width = name_width(result);
  print_problem(out, result, sizes);
  print_heading(out, width);
  for (int i = 0; i < result->num_outputs; ++i) {
    print_output(out, &result->outputs[i], dtype, width);
    wrong += !check_output_right(&result->outputs[i], dtype);
  }
  if (result->damaged[0]) fprintf(out, "%s: memory around it was written to\n", result->damaged);
  wrong += result->damaged[0] != 0;
  fprintf(out, "%s\n", wrong ? "WRONG" : "right");
  return !wrong;
}

int cli_check(const fa_spec *spec, const cli_sizes *sizes, FILE *out) {
  fa_context *context = NULL;
  trial_result result = {0};
  trial_options trial = {.spec = *spec, .sizes = *sizes, .poison = 1, .overlay = cli_overlay()};
  trial.progress = show_progress;
  fa_status status = cli_open(&context, spec->target);
  if (!status) status = trial_run(&result, context, &trial);
  progress_end();
  int code = CLI_OK;
  if (status)
    code = cli_fail(status);
  else if (!print_result(out, &result, sizes, spec->dtype))
    code = CLI_WRONG;
  trial_free(&result);
  fa_context_destroy(context);
  return code;
}
