/* kernel.c: from a spec to a kernel that can be launched: render, compile, find the entries. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "spec.h"
#include "structs.h"

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

fa_status kernel_resolve(fa_spec *out, const fa_context *context, const fa_spec *spec) {
  (void)context; /* a context is a cpu context */
  fa_status status = spec_canonicalise(out, spec);
  if (status) return status;
  if (out->target == FA_TARGET_BEST) out->target = FA_TARGET_CPU;
  if (out->target == FA_TARGET_CPU) return FA_OK;
  return fail(FA_UNSUPPORTED, "target: %s does not run on a cpu context",
              spec_target_word(out->target));
}

/* Asks the plan of a problem of ones for its entries, and finds them in the code. */
static fa_status find_entries(fa_kernel *kernel) {
  const fa_problem ones = {.batch = 1,
                           .heads_q = kernel->spec.group,
                           .heads_kv = 1,
                           .seqlen_q = 1,
                           .seqlen_k = 1,
                           .softmax_scale = 1,
                           .processors = 1};
  fa_plan plan;
  kernel->plan(&ones, &plan);
  for (int i = 0; i < plan.num_steps; ++i) {
    kernel_entry *entry = &kernel->entries[kernel->num_entries++];
    entry->name = plan.steps[i].entry;
    entry->run = (fa_cpu_entry)jit_symbol(kernel->code, entry->name);
    if (!entry->run)
      return fail(FA_COMPILE, "%s: the plan names an entry that the kernel lacks", entry->name);
    int scratch = (int)plan.steps[i].shared_bytes;
    if (scratch > kernel->info.shared_bytes) kernel->info.shared_bytes = scratch;
  }
  return FA_OK;
}

static fa_status compile(fa_kernel *kernel) {
  char kernel_file[FA_NAME_MAX + 16], launch_file[FA_NAME_MAX + 16], plan_name[FA_NAME_MAX + 16];
  const char *name = kernel->text.name;
  snprintf(kernel_file, sizeof kernel_file, "%s.c", name);
  snprintf(launch_file, sizeof launch_file, "%s_launch.c", name);
  snprintf(plan_name, sizeof plan_name, "%s_plan", name);
  const jit_unit units[] = {{kernel_file, &kernel->text.kernel},
                            {launch_file, &kernel->text.launch}};
  fa_status status = jit_compile(&kernel->code, units, 2);
  if (status) return status;
  kernel->plan = (fa_plan_function)jit_symbol(kernel->code, plan_name);
  status = kernel->plan ? find_entries(kernel)
                        : fail(FA_COMPILE, "%s: no such function in the launch plan", plan_name);
  jit_seal(kernel->code);
  return status;
}

static fa_status build_steps(fa_kernel *kernel) {
  double start = now_ms();
  fa_status status = render_spec(&kernel->text, &kernel->spec, kernel->context->template_dir);
  double rendered = now_ms();
  if (!status) status = compile(kernel);
  double compiled = now_ms();
  if (!status) status = cpu_pool_reserve(kernel->context->pool, (size_t)kernel->info.shared_bytes);
  kernel->info.size = sizeof kernel->info;
  kernel->info.name = kernel->text.name;
  kernel->info.target = kernel->spec.target;
  kernel->info.origin = FA_BUILT;
  kernel->info.render_ms = rendered - start;
  kernel->info.compile_ms = compiled - rendered;
  return status;
}

fa_status kernel_build(fa_kernel **out, fa_context *context, const fa_spec *spec) {
  fa_kernel *kernel = calloc(1, sizeof *kernel);
  *out = NULL;
  if (!kernel) return fail(FA_NO_MEMORY, "kernel: out of memory");
  kernel->context = context;
  kernel->spec = *spec;
  fa_status status = build_steps(kernel);
  if (status) {
    kernel_free(kernel);
    return status;
  }
  if (context->log)
    fprintf(stderr, "fagen: built %s: %.1f ms to render, %.1f ms to compile\n", kernel->text.name,
            kernel->info.render_ms, kernel->info.compile_ms);
  *out = kernel;
  return FA_OK;
}

void kernel_free(fa_kernel *kernel) {
  if (!kernel) return;
  jit_free(kernel->code);
  render_free(&kernel->text);
  free(kernel);
}

/* ---- Public ------------------------------------------------------------------------------------
 */

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

FA_API fa_status fa_param_slot(int32_t *slot, const fa_kernel *kernel, const char *name) {
  if (!slot || !kernel || !name)
    return fail(FA_INVALID, "%s: NULL", !slot ? "slot" : !kernel ? "kernel" : "name");
  return fail(FA_INVALID, "name: '%.80s' is no parameter of %s, which has none", name,
              kernel->text.name);
}

FA_API const char *fa_kernel_source(const fa_kernel *kernel) {
  return kernel ? kernel->text.kernel.text : "";
}

FA_API const char *fa_kernel_launch_source(const fa_kernel *kernel) {
  return kernel ? kernel->text.launch.text : "";
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
