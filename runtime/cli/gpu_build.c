/* gpu_build.c: tools from the environment, and launch plans for devices that are not here. */
#include "gpu_build.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "gen/error.h"

cuda_tools gpu_tools_open(int use_cache) {
  const log_sink log = cli_log();
  return (cuda_tools){.template_dir = cli_overlay(),
                      .nvrtc = context_environment("FA_NVRTC"),
                      .kept = use_cache ? cache_open(NULL, log) : NULL,
                      .log = log};
}

void gpu_tools_close(cuda_tools *tools) {
  cache_close(tools->kept);
  tools->kept = NULL;
}

fa_status gpu_plan_compile(gpu_plan *out, const fa_spec *spec, const char *launch_source,
                           int processors, long long l2_bytes) {
  char file_name[FA_NAME_MAX + 16];
  fa_plan smallest;
  *out = (gpu_plan){.device = {.processors = processors, .l2_bytes = l2_bytes}};
  out->kernel.context = &out->device;
  out->kernel.spec = *spec;
  fa_status status = fa_spec_name(out->kernel.name, sizeof out->kernel.name, spec);
  if (status) return status;
  snprintf(file_name, sizeof file_name, "%s_launch.c", out->kernel.name);
  const render_text text = {.text = (char *)launch_source};
  const jit_unit unit = {file_name, &text};
  status = kernel_compile_plan(&out->kernel, &unit, 1);
  if (status) return status;
  jit_seal(out->kernel.code);
  status = kernel_plan_smallest(&out->kernel, &smallest);
  if (status) gpu_plan_free(out);
  return status;
}

void gpu_plan_free(gpu_plan *plan) {
  jit_free(plan->kernel.code);
  plan->kernel.code = NULL;
}

fa_args sizes_as_args(const cli_sizes *sizes) {
  fa_args args = FA_ARGS_INIT;
  args.batch = sizes->batch;
  args.heads_q = sizes->heads_q;
  args.heads_kv = sizes->heads_kv;
  args.seqlen_q = sizes->seqlen_q;
  args.seqlen_k = sizes->seqlen_k;
  return args;
}

/* ---- Dynamic shared memory ------------------------------------------------------------------- */

static fa_status note_steps(int bytes[CUBIN_ENTRIES], const fa_plan *plan, const cubin *binary) {
  for (int i = 0; i < plan->num_steps; ++i) {
    const fa_step *step = &plan->steps[i];
    int at = 0;
    while (at < binary->num_entries && strcmp(binary->entries[at].name, step->entry)) ++at;
    if (at == binary->num_entries)
      return fail(FA_COMPILE, "%s: the plan launches this entry, and the kernel lacks it",
                  step->entry);
    if (bytes[at] < (int)step->shared_bytes) bytes[at] = (int)step->shared_bytes;
  }
  return FA_OK;
}

/* Some plans have an entry for short sequences and one for long ones. */
fa_status gpu_plan_dynamic_shared(int bytes[CUBIN_ENTRIES], const gpu_plan *plan,
                                  const cubin *binary) {
  static const int64_t seqlens[] = {1, 8192};
  fa_status status = FA_OK;
  for (int i = 0; i < CUBIN_ENTRIES; ++i) bytes[i] = -1;
  for (size_t i = 0; !status && i < sizeof seqlens / sizeof *seqlens; ++i) {
    const cli_sizes sizes = {.batch = 1,
                             .heads_q = plan->kernel.spec.group,
                             .heads_kv = 1,
                             .seqlen_q = seqlens[i],
                             .seqlen_k = seqlens[i]};
    fa_args args = sizes_as_args(&sizes);
    fa_plan steps;
    status = kernel_plan(&plan->kernel, &args, &steps);
    if (!status) status = note_steps(bytes, &steps, binary);
  }
  return status;
}
