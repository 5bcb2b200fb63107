/* kernel.h: a built kernel, and what its plan says. */
#ifndef FAGEN_RUNTIME_KERNEL_H
#define FAGEN_RUNTIME_KERNEL_H

#include "context.h"
#include "fagen.h"
#include "fagen_plan.h"
#include "jit.h"
#include "params.h"

struct fa_kernel {
  fa_context *context;
  fa_spec spec; /* canonical, target named */
  char name[FA_NAME_MAX];
  param_list params;            /* of the variants */
  char *source, *launch_source; /* the emitted texts */
  jit *code;                    /* of the plan, and on cpu of the kernel */
  fa_plan_function plan;
  void *device_code; /* the backend's own */
  fa_kernel_info info;
};

/* registry_build for every backend. */
fa_status kernel_build(fa_kernel **out, fa_context *context, const fa_spec *spec);
void kernel_free(fa_kernel *kernel);

/* Compiles emitted C, the launch plan among it, and finds the plan: sets code and plan. After FA_OK
   symbols can be looked up until jit_seal(kernel->code), which the caller owes. */
fa_status kernel_compile_plan(fa_kernel *kernel, const jit_unit *units, size_t count);

/* The plan of the smallest problem: which entries there are and what they use. FA_TEMPLATE: the
   templates plan more than a plan has room for; then the kernel must not be launched. */
fa_status kernel_plan_smallest(const fa_kernel *kernel, fa_plan *out);

/* Resolves what a spec leaves to the context: canonical form, target and arch named. */
fa_status kernel_resolve(fa_spec *out, const fa_context *context, const fa_spec *spec);

/* The plan of a launch, for `explain`. Tensors and workspace need not be set. */
fa_status kernel_plan(const fa_kernel *kernel, const fa_args *args, fa_plan *out);

#endif
