/* kernel.c: from a spec to a kernel that can be launched, and what can be asked of one. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "render.h"
#include "spec.h"
#include "structs.h"

/* ---- Building ------------------------------------------------------------------------------- */

fa_status kernel_resolve(fa_spec *out, const fa_context *context, const fa_spec *spec) {
  fa_status status = spec_canonicalise(out, spec);
  return status ? status : context->backend->resolve(out, context);
}

fa_status kernel_compile_plan(fa_kernel *kernel, const jit_unit *units, size_t count) {
  char plan_name[FA_NAME_MAX + 16];
  snprintf(plan_name, sizeof plan_name, "%s_plan", kernel->name);
  fa_status status = jit_compile(&kernel->code, units, count);
  if (status) return status;
  kernel->plan = (fa_plan_function)jit_symbol(kernel->code, plan_name);
  if (kernel->plan) return FA_OK;
  jit_seal(kernel->code);
  return fail(FA_COMPILE, "%s: no such function in the launch plan", plan_name);
}

/* A plan cannot refuse, and plans as many steps for every problem: what there is no room for goes into
   the spare ones once, and is told. */
fa_status kernel_plan_smallest(const fa_kernel *kernel, fa_plan *out) {
  struct {
    fa_plan plan;
    fa_step spare[FA_PLAN_MAX_STEPS];
  } room;
  fa_plan_param params[PARAMS_MAX];
  for (int i = 0; i < PARAMS_MAX; ++i)
    params[i] = (fa_plan_param){.value = 1, .length = kernel->spec.group}; /* 1 for each head */
  const fa_problem ones = {.batch = 1,
                           .heads_q = kernel->spec.group,
                           .heads_kv = 1,
                           .seqlen_q = 1,
                           .seqlen_k = 1,
                           .softmax_scale = 1,
                           .processors = 1,
                           .params = params};
  kernel->plan(&ones, &room.plan);
  if (room.plan.num_steps > FA_PLAN_MAX_STEPS || room.plan.num_parts > FA_PLAN_MAX_PARTS)
    return fail(FA_TEMPLATE,
                "%s: a plan of %d steps and %d parts of the workspace; at most %d and %d",
                kernel->name, room.plan.num_steps, room.plan.num_parts, FA_PLAN_MAX_STEPS,
                FA_PLAN_MAX_PARTS);
  *out = room.plan;
  return FA_OK;
}

static void tell_built(const fa_kernel *kernel) {
  const fa_kernel_info *info = &kernel->info;
  log_line(kernel->context->log, LOG_INFO,
           info->origin == FA_FROM_DISK
               ? "read %s: %.1f ms to render, %.1f ms to compile, %.1f ms to load"
               : "built %s: %.1f ms to render, %.1f ms to compile, %.1f ms to load",
           kernel->name, info->render_ms, info->compile_ms, info->load_ms);
}

fa_status kernel_build(fa_kernel **out, fa_context *context, const fa_spec *spec) {
  fa_kernel *kernel = calloc(1, sizeof *kernel);
  *out = NULL;
  if (!kernel) return fail(FA_NO_MEMORY, "kernel: out of memory");
  kernel->context = context;
  kernel->spec = *spec;
  fa_status status = fa_spec_name(kernel->name, sizeof kernel->name, spec);
  if (!status) {
    log_line(context->log, LOG_DEBUG, "%s is not in memory", kernel->name);
    status = context->backend->build(kernel);
  }
  if (status) {
    log_line(context->log, LOG_INFO, "%s: %s: %.700s", kernel->name, fa_status_name(status),
             fa_error_message());
    kernel_free(kernel);
    return status;
  }
  kernel->info.size = sizeof kernel->info;
  kernel->info.name = kernel->name;
  kernel->info.target = kernel->spec.target;
  tell_built(kernel);
  *out = kernel;
  return FA_OK;
}

void kernel_free(fa_kernel *kernel) {
  if (!kernel) return;
  kernel->context->backend->unload(kernel);
  jit_free(kernel->code);
  free(kernel->source);
  free(kernel->launch_source);
  free(kernel);
}

/* ---- Public --------------------------------------------------------------------------------- */

FA_API fa_status fa_get_kernel(const fa_kernel **out, fa_context *context, const fa_spec *spec) {
  if (!out) return fail(FA_INVALID, "out: NULL; a place for the kernel is required");
  *out = NULL;
  if (!context) return fail(FA_INVALID, "context: NULL; create one with fa_context_create");
  fa_spec resolved;
  fa_status status = kernel_resolve(&resolved, context, spec);
  return status ? status : registry_get(out, context->kernels, context, &resolved, kernel_build);
}

FA_API fa_status fa_prebuild(fa_context *context, const fa_spec *specs, size_t count) {
  if (count && !specs) return fail(FA_INVALID, "specs: NULL, with count %zu", count);
  for (size_t i = 0; i < count; ++i) {
    const fa_kernel *kernel;
    const fa_spec *spec = (const fa_spec *)(const void *)((const char *)specs + i * specs[0].size);
    fa_status status = fa_get_kernel(&kernel, context, spec);
    if (status) return status;
  }
  return FA_OK;
}

FA_API fa_status fa_check(const fa_spec *spec, char *reason, size_t bytes) {
  fa_spec resolved;
  render_result text;
  fa_status status = spec_canonicalise(&resolved, spec);
  if (!status && resolved.target == FA_TARGET_BEST) resolved.target = FA_TARGET_CPU;
  if (!status) {
    status = render_spec(&text, &resolved, context_template_dir(NULL));
    if (!status) render_free(&text);
  }
  if (reason && bytes) snprintf(reason, bytes, "%s", status ? fa_error_message() : "");
  return status;
}

FA_API const char *fa_kernel_source(const fa_kernel *kernel) {
  return kernel ? kernel->source : "";
}

FA_API const char *fa_kernel_launch_source(const fa_kernel *kernel) {
  return kernel ? kernel->launch_source : "";
}

FA_API fa_status fa_kernel_info_get(fa_kernel_info *out, const fa_kernel *kernel) {
  fa_status status = struct_check_out(out, sizeof *out, "fa_kernel_info");
  if (status) return status;
  if (!kernel) return fail(FA_INVALID, "kernel: NULL");
  size_t size = out->size;
  memcpy(out, &kernel->info, sizeof *out);
  out->size = size;
  return FA_OK;
}
