/* kernel.h: a built kernel, and what its plan says. */
#ifndef FAGEN_RUNTIME_KERNEL_H
#define FAGEN_RUNTIME_KERNEL_H

#include "context.h"
#include "fagen.h"
#include "fagen_plan.h"
#include "jit.h"
#include "render.h"

typedef struct kernel_entry {
  const char *name; /* as the plan's steps give it */
  fa_cpu_entry run;
} kernel_entry;

struct fa_kernel {
  fa_context *context;
  fa_spec spec; /* canonical, target named */
  render_result text;
  jit *code;
  fa_plan_function plan;
  kernel_entry entries[FA_PLAN_MAX_STEPS];
  int num_entries;
  fa_kernel_info info;
};

/* registry_build for every target. */
fa_status kernel_build(fa_kernel **out, fa_context *context, const fa_spec *spec);
void kernel_free(fa_kernel *kernel);

/* Resolves what a spec leaves to the context: canonical form, target named. */
fa_status kernel_resolve(fa_spec *out, const fa_context *context, const fa_spec *spec);

/* The plan of a launch, for `explain`. Tensors and workspace need not be set. */
fa_status kernel_plan(const fa_kernel *kernel, const fa_args *args, fa_plan *out);

#endif
