/* explain_plan.c: the launch plan and the workspace, on this machine or on a device of the arch. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain_parts.h"
#include "gen/error.h"
#include "table.h"

/* ---- The text -------------------------------------------------------------------------------- */

/* Innermost extents first, as in fa_plan_map. */
static void print_map(int number, const fa_plan_map *map) {
  char extent[160] = "", box[80] = "";
  for (int i = 0; i < map->rank; ++i) {
    size_t used = strlen(extent), box_used = strlen(box);
    snprintf(extent + used, sizeof extent - used, "%s%llu", i ? " x " : "", map->extent[i]);
    snprintf(box + box_used, sizeof box - box_used, "%s%u", i ? " x " : "", map->box[i]);
  }
  table_row("", "tensor map %d: %s elements of %d bytes, box %s, swizzle of %d bytes", number,
            extent, map->element_bytes, box, map->swizzle_bytes);
}

static void print_step(int number, const fa_step *step, int on_cpu) {
  char label[24];
  snprintf(label, sizeof label, "step %d", number);
  table_row(label, "%s", step->entry);
  if (on_cpu) {
    table_row("", "grid %u x %u x %u, scratch %s a thread", step->grid[0], step->grid[1],
              step->grid[2], amount_of_bytes(step->shared_bytes).text);
    return;
  }
  table_row("", "grid %u x %u x %u, block %u x %u x %u, dynamic shared memory %s a block",
            step->grid[0], step->grid[1], step->grid[2], step->block[0], step->block[1],
            step->block[2], amount_of_bytes(step->shared_bytes).text);
  if (step->cluster[0])
    table_row("", "cluster %u x %u x %u", step->cluster[0], step->cluster[1], step->cluster[2]);
  if (step->programmatic) table_row("", "may start before the step before it has ended");
  if (step->cooperative) table_row("", "cooperative: all blocks are resident at once");
  for (int i = 0; i < step->num_maps; ++i) print_map(i + 1, &step->maps[i]);
}

static void print_steps(const fa_plan *plan, int on_cpu) {
  for (int i = 0; i < plan->num_steps; ++i) print_step(i + 1, &plan->steps[i], on_cpu);
  table_heading("Workspace, the caller's");
  for (int i = 0; i < plan->num_parts; ++i)
    table_row(plan->parts[i].name, "%s at offset %llu",
              amount_of_bytes((int64_t)plan->parts[i].bytes).text, plan->parts[i].offset);
  table_row("in all", "%s", amount_of_bytes((int64_t)plan->workspace_bytes).text);
}

int explain_missing(const char *heading, fa_status status) {
  int code = cli_exit_code(status);
  if (code != CLI_CANNOT_RUN) return cli_fail(status);
  table_heading(heading);
  table_row("not computed", "%s", fa_error_message());
  return CLI_OK;
}

/* ---- Making it ------------------------------------------------------------------------------- */

static fa_status make_plan(fa_plan *plan, const fa_kernel *kernel, const cli_sizes *sizes,
                           const drawn_params *drawn) {
  fa_param params[PARAMS_MAX];
  fa_args args = sizes_as_args(sizes);
  args.params = params;
  args.num_params = kernel->spec.pass == FA_PRE ? 0 : drawn_as_arguments(params, drawn);
  return kernel_plan(kernel, &args, plan);
}

/* The plan's strings live as long as the kernel: it is printed before the context is closed. */
int explain_cpu_plan(const fa_spec *spec, const cli_sizes *sizes, const drawn_params *drawn) {
  fa_context *context = NULL;
  const fa_kernel *kernel;
  fa_plan plan;
  fa_status status = cli_open(&context, spec->target);
  if (!status) status = fa_get_kernel(&kernel, context, spec);
  if (!status) status = make_plan(&plan, kernel, sizes, drawn);
  int code = CLI_OK;
  if (status) {
    code = explain_missing("Launch plan and workspace", status);
  } else {
    table_heading("Launch plan on this machine");
    print_steps(&plan, 1);
  }
  fa_context_destroy(context);
  return code;
}

static void print_place(const explain_place *place) {
  char heading[80];
  snprintf(heading, sizeof heading, "Launch plan on %s",
           place->here ? "this machine's GPU" : place->model->device);
  table_heading(heading);
  table_row("reckoned with", "%d multiprocessors, L2 of %s", place->processors,
            amount_of_bytes(place->l2_bytes).text);
  if (!place->here)
    table_row("", "%s stands for cc%d: %s", place->model->device, place->model->arch,
              place->reason);
}

int explain_gpu_plan(const explain_place *place, const cli_sizes *sizes, const drawn_params *drawn,
                     const char *launch_source) {
  gpu_plan compiled;
  fa_plan plan;
  fa_status status =
      gpu_plan_compile(&compiled, &place->spec, launch_source, place->processors, place->l2_bytes);
  if (status) return explain_missing("Launch plan, workspace and compiled kernel", status);
  int code = CLI_OK;
  compiled.kernel.params = drawn->declared;
  status = make_plan(&plan, &compiled.kernel, sizes, drawn);
  if (status) {
    code = cli_fail(status);
  } else {
    print_place(place);
    print_steps(&plan, 0);
    code = explain_code(place, &plan);
  }
  gpu_plan_free(&compiled);
  return code;
}
