/* explain_code.c: where a GPU kernel runs, and what the compiler made of it. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "explain_parts.h"
#include "table.h"

void explain_place_find(explain_place *out, const fa_spec *spec) {
  fa_context *context;
  *out = (explain_place){.spec = *spec};
  fa_status status = cli_open(&context, spec->target);
  if (!status) {
    status = kernel_resolve(&out->spec, context, spec);
    out->here = !status;
    out->processors = context->processors;
    out->l2_bytes = context->l2_bytes;
    fa_context_destroy(context);
  }
  if (status) out->spec = *spec;
  out->model = gpu_model_of(out->spec.arch);
  if (!status) return;
  snprintf(out->reason, sizeof out->reason, "%s", fa_error_message());
  out->processors = out->model->processors;
  out->l2_bytes = out->model->l2_bytes;
}

static const fa_step *find_step(const fa_plan *plan, const char *entry) {
  for (int i = 0; i < plan->num_steps; ++i)
    if (!strcmp(plan->steps[i].entry, entry)) return &plan->steps[i];
  return NULL;
}

static void print_occupancy(const cubin_entry *entry, const fa_step *step, const gpu_model *model) {
  const int shared_bytes = entry->shared_bytes + (int)step->shared_bytes;
  const int threads = (int)(step->block[0] * step->block[1] * step->block[2]);
  const occupancy fit = occupancy_of(model, entry->registers, shared_bytes, threads);
  if (!fit.blocks)
    table_row("", "a block of %d threads does not fit a multiprocessor of cc%d: %s", threads,
              model->arch, fit.limit);
  else
    table_row("",
              "occupancy: %d block%s of %d threads a multiprocessor, %d of %d warps (%d %%); "
              "limited by %s",
              fit.blocks, fit.blocks > 1 ? "s" : "", threads, fit.warps, model->warps,
              100 * fit.warps / model->warps, fit.limit);
}

static void print_entry(const cubin_entry *entry, const fa_plan *plan, const gpu_model *model) {
  const fa_step *step = find_step(plan, entry->name);
  table_row("entry", "%s", entry->name);
  if (!entry->registers) {
    table_row("", "this NVRTC does not report registers and spills");
    return;
  }
  table_row("", "%d registers a thread, %d bytes spilled a thread", entry->registers,
            entry->spill_bytes);
  if (!step) {
    table_row("", "static shared memory %d bytes a block; not launched for these sizes",
              entry->shared_bytes);
    return;
  }
  table_row("", "shared memory %d + %u bytes a block, static + dynamic", entry->shared_bytes,
            step->shared_bytes);
  print_occupancy(entry, step, model);
}

int explain_code(const explain_place *place, const fa_plan *plan) {
  cuda_binary binary;
  cuda_tools tools = gpu_tools_open(1);
  fa_status status = cuda_build_or_load(&binary, &place->spec, &tools);
  gpu_tools_close(&tools);
  if (status) return explain_missing("Compiled kernel", status);
  table_heading("Compiled kernel");
  if (binary.origin == FA_FROM_DISK)
    table_row("cubin", "%zu bytes, from the disk cache", binary.code.bytes);
  else
    table_row("cubin", "%zu bytes, compiled in %.0f ms", binary.code.bytes, binary.compile_ms);
  for (int i = 0; i < binary.code.num_entries; ++i)
    print_entry(&binary.code.entries[i], plan, place->model);
  cuda_binary_free(&binary);
  return CLI_OK;
}
