/* explain.c: `fagen explain`: what a spec becomes, and what a problem costs, in checkable numbers.
 */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "gen/error.h"
#include "gen/render.h"
#include "gen/spec.h"
#include "pairs.h"
#include "runtime/kernel.h"
#include "specs.h"
#include "table.h"

/* ---- The text ------------------------------------------------------------------------------- */

static void print_problem(const fa_spec *spec, const cli_sizes *sizes) {
  char words[FA_NAME_MAX], name[FA_NAME_MAX];
  if (fa_spec_print(words, sizeof words, spec) || fa_spec_name(name, sizeof name, spec)) return;
  printf("%s\n", name);
  table_row("spec", "%s", words);
  table_row("sizes",
            "batch %" PRId64 ", heads %" PRId64 ", key/value heads %" PRId64 ", seqlen %" PRId64
            ", seqlen_k %" PRId64,
            sizes->batch, sizes->heads_q, sizes->heads_kv, sizes->seqlen_q, sizes->seqlen_k);
  table_row("", "dim_qk %d, dim_v %d, %s of %d bytes", spec->dim_qk, spec->dim_v,
            spec_dtype_word(spec->dtype), spec_dtype_bytes(spec->dtype));
  const char *suffix = spec->target == FA_TARGET_CPU ? "c" : "cu";
  table_row("emitted as", "%s.%s", name, suffix);
  table_row("", "%s_launch.c", name);
}

static void print_facts(const render_result *rendered) {
  table_heading("Decisions of the generator");
  for (size_t i = 0; i < rendered->num_facts; ++i) {
    const render_fact *fact = &rendered->facts[i];
    table_row(fact->name, "%s: %s", fact->value, fact->reason);
  }
}

/* ---- The plan ------------------------------------------------------------------------------- */

static void print_step(int number, const fa_step *step, int on_cpu) {
  char label[24];
  snprintf(label, sizeof label, "step %d", number);
  table_row(label, "%s", step->entry);
  if (on_cpu) {
    table_row("", "grid %u x %u x %u, scratch %s a thread", step->grid[0], step->grid[1],
              step->grid[2], amount_of_bytes(step->shared_bytes).text);
    return;
  }
  table_row("", "grid %u x %u x %u, block %u x %u x %u, shared memory %s a block", step->grid[0],
            step->grid[1], step->grid[2], step->block[0], step->block[1], step->block[2],
            amount_of_bytes(step->shared_bytes).text);
  if (step->cluster[0])
    table_row("", "cluster %u x %u x %u", step->cluster[0], step->cluster[1], step->cluster[2]);
  if (step->num_maps) table_row("", "%d tensor maps", step->num_maps);
}

static void print_plan(const fa_plan *plan, int on_cpu) {
  table_heading("Launch plan on this machine");
  for (int i = 0; i < plan->num_steps; ++i) print_step(i + 1, &plan->steps[i], on_cpu);
  table_heading("Workspace, the caller's");
  for (int i = 0; i < plan->num_parts; ++i)
    table_row(plan->parts[i].name, "%s at offset %llu",
              amount_of_bytes((int64_t)plan->parts[i].bytes).text, plan->parts[i].offset);
  table_row("in all", "%s", amount_of_bytes((int64_t)plan->workspace_bytes).text);
}

static fa_status make_plan(fa_plan *plan, fa_context *context, const fa_spec *spec,
                           const cli_sizes *sizes) {
  const fa_kernel *kernel;
  fa_status status = fa_get_kernel(&kernel, context, spec);
  if (status) return status;
  fa_param *params = calloc(sizes->num_params + 1, sizeof *params);
  if (!params) return fail(FA_NO_MEMORY, "out of memory for the parameters");
  for (size_t i = 0; i < sizes->num_params; ++i)
    params[i] = (fa_param){.name = sizes->params[i].name, .value = sizes->params[i].value};
  fa_args args = FA_ARGS_INIT;
  args.batch = sizes->batch;
  args.heads_q = sizes->heads_q;
  args.heads_kv = sizes->heads_kv;
  args.seqlen_q = sizes->seqlen_q;
  args.seqlen_k = sizes->seqlen_k;
  args.params = params;
  args.num_params = sizes->num_params;
  status = kernel_plan(kernel, &args, plan);
  free(params);
  return status;
}

/* ---- The command ---------------------------------------------------------------------------- */

/* Says what is missing; an error that has nothing to do with this machine stays an error. */
static int tell_missing(const char *heading, fa_status status) {
  int code = cli_exit_code(status);
  if (code != CLI_CANNOT_RUN) return cli_fail(status);
  table_heading(heading);
  table_row("not computed", "%s", fa_error_message());
  return CLI_OK;
}

static int print_arithmetic(const fa_spec *spec, const cli_sizes *sizes, const char *keep) {
  visible_pairs pairs;
  fa_status status = pairs_count(&pairs, spec, sizes, keep);
  if (status) return cli_fail(status);
  cost_print_work(spec, sizes, &pairs);
  cost_print_bytes(spec, sizes, &pairs);
  cost_print_saved(spec, sizes);
  return CLI_OK;
}

/* The plan's strings live as long as the kernel: it is printed before the context is closed. */
static int explain_plan(const fa_spec *spec, const cli_sizes *sizes) {
  fa_context *context = NULL;
  fa_plan plan;
  fa_status status = cli_open(&context, spec->target);
  if (!status) status = make_plan(&plan, context, spec, sizes);
  int code = CLI_OK;
  if (status)
    code = tell_missing("Launch plan and workspace", status);
  else
    print_plan(&plan, spec->target == FA_TARGET_CPU);
  fa_context_destroy(context);
  return code;
}

static int explain_one(const fa_spec *spec, const cli_options *options) {
  cli_sizes sizes;
  fa_status status = options_sizes(&sizes, options, spec);
  if (!status) status = cost_countable(spec, &sizes);
  if (status) return cli_fail(status);

  render_result rendered;
  fa_status text_status = render_spec(&rendered, spec, cli_overlay());
  if (text_status && cli_exit_code(text_status) != CLI_CANNOT_RUN) return cli_fail(text_status);
  print_problem(spec, &sizes);
  int code = CLI_OK;
  if (text_status)
    code = tell_missing("Decisions of the generator", text_status);
  else
    print_facts(&rendered);
  if (!code) code = print_arithmetic(spec, &sizes, text_status ? NULL : rendered.keep);
  if (!code) code = explain_plan(spec, &sizes);
  if (!text_status) render_free(&rendered);
  return code;
}

int cli_explain(const cli_options *options) {
  spec_list specs;
  fa_status status = spec_list_read(&specs, options->words, options->num_words);
  if (status) return cli_fail(status);
  int code = CLI_OK;
  for (size_t i = 0; i < specs.count; ++i) {
    if (i) puts("");
    code = cli_worst(code, explain_one(&specs.items[i], options));
  }
  spec_list_free(&specs);
  return code;
}
