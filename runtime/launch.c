/* launch.c: the calls that run a kernel. */
#include <limits.h>
#include <string.h>

#include "args.h"
#include "error.h"
#include "structs.h"

enum { WORKSPACE_ALIGNMENT = 256 };

/* ---- Plans --------------------------------------------------------------------------------- */

static fa_status take_args(fa_args *out, const fa_kernel *kernel, const fa_args *args) {
  if (!kernel) return fail(FA_INVALID, "kernel: NULL; get one with fa_get_kernel");
  return struct_take(out, sizeof *out, args, "fa_args");
}

fa_status kernel_plan(const fa_kernel *kernel, const fa_args *args, fa_plan *out) {
  fa_args taken;
  fa_problem problem;
  fa_plan_param params[PARAMS_MAX];
  fa_status status = take_args(&taken, kernel, args);
  if (!status) status = args_take_sizes(&problem, params, kernel, &taken);
  if (!status) kernel->plan(&problem, out);
  return status;
}

FA_API fa_status fa_workspace_size(size_t *bytes, const fa_kernel *kernel, const fa_args *args) {
  if (!bytes) return fail(FA_INVALID, "bytes: NULL; a place for the size is required");
  fa_plan plan;
  fa_status status = kernel_plan(kernel, args, &plan);
  if (!status) *bytes = (size_t)plan.workspace_bytes;
  return status;
}

static fa_status check_limit(const fa_args *args, const fa_plan *plan) {
  size_t needed = (size_t)plan->workspace_bytes;
  if (!args->workspace_limit || needed <= args->workspace_limit) return FA_OK;
  return fail(FA_UNSUPPORTED, "workspace_limit: %zu; this kernel needs %zu and cannot do with less",
              args->workspace_limit, needed);
}

static fa_status check_workspace(const fa_args *args, const fa_plan *plan) {
  size_t needed = (size_t)plan->workspace_bytes;
  fa_status status = check_limit(args, plan);
  if (status || !needed) return status;
  if (!args->workspace)
    return fail(FA_INVALID, "workspace: NULL; %zu bytes are required (fa_workspace_size)", needed);
  if ((uintptr_t)args->workspace % WORKSPACE_ALIGNMENT)
    return fail(FA_INVALID, "workspace: address %p; must be a multiple of %d", args->workspace,
                WORKSPACE_ALIGNMENT);
  if (args->workspace_size < needed)
    return fail(FA_INVALID, "workspace_size: %zu; at least %zu are required", args->workspace_size,
                needed);
  return FA_OK;
}

/* ---- Launches ------------------------------------------------------------------------------ */

/* Takes the workspace that the caller did not give. *owned is NULL when there is none to give back.
   */
static fa_status take_workspace(void **owned, fa_args *args, const fa_context *context,
                                const fa_plan *plan, struct CUstream_st *stream) {
  if (args->workspace || !plan->workspace_bytes) return FA_OK;
  args->workspace_size = (size_t)plan->workspace_bytes;
  fa_status status = check_limit(args, plan);
  if (!status)
    status = context->backend->take_workspace(owned, context, args->workspace_size, stream);
  args->workspace = *owned;
  return status;
}

/* Between enter and leave: checks everything, then runs. */
static fa_status launch_entered(const fa_kernel *kernel, fa_args *args, struct CUstream_st *stream,
                                int own_workspace) {
  const fa_context *context = kernel->context;
  fa_problem problem;
  fa_plan_param params[PARAMS_MAX];
  fa_plan plan;
  void *owned = NULL;
  fa_status status = args_take_sizes(&problem, params, kernel, args);
  if (!status) status = args_take_tensors(&problem, kernel, args);
  if (status) return status;
  problem.workspace = args->workspace;
  kernel->plan(&problem, &plan);
  if (own_workspace) status = take_workspace(&owned, args, context, &plan, stream);
  if (!status) status = check_workspace(args, &plan);
  if (!status && owned) {
    problem.workspace = owned;
    kernel->plan(&problem, &plan);
  }
  if (!status) status = context->backend->run(kernel, &plan, stream);
  if (owned) context->backend->give_workspace(context, owned, stream);
  return status;
}

/* own_workspace: whether to bring what the caller did not give. */
static fa_status launch(const fa_kernel *kernel, const fa_args *args, struct CUstream_st *stream,
                        int own_workspace) {
  fa_args taken;
  int entered;
  fa_status status = take_args(&taken, kernel, args);
  if (status) return status;
  const fa_context *context = kernel->context;
  status = context->backend->enter(context, stream, &entered);
  if (status) return status;
  status = launch_entered(kernel, &taken, stream, own_workspace);
  context->backend->leave(context, entered);
  return status;
}

FA_API fa_status fa_launch(const fa_kernel *kernel, const fa_args *args,
                           struct CUstream_st *stream) {
  return launch(kernel, args, stream, 0);
}

/* ---- One call ------------------------------------------------------------------------------ */

static fa_status derive_spec(fa_spec *out, int pass, const fa_args *args) {
  fa_spec spec = FA_SPEC_INIT;
  if (args->heads_kv > 0 ? args->heads_q % args->heads_kv != 0 : args->heads_q != 0)
    return fail(FA_INVALID, "heads_q: %lld; must be a multiple of heads_kv, %lld",
                (long long)args->heads_q, (long long)args->heads_kv);
  int64_t group = args->heads_kv > 0 ? args->heads_q / args->heads_kv : 1;
  if (group < 0)
    return fail(FA_INVALID, "heads_q: %lld; must be 0 to %d", (long long)args->heads_q, INT_MAX);
  if (group > INT_MAX)
    return fail(FA_INVALID, "heads_q: %lld; at most %d a key/value head", (long long)args->heads_q,
                INT_MAX);
  const char *variants = args->variants ? args->variants : "";
  if (strlen(variants) >= sizeof spec.variants)
    return fail(FA_INVALID, "variants: '%.40s...'; all names take at most %d bytes", variants,
                FA_VARIANTS_MAX - 1);
  spec.pass = pass;
  spec.target = args->target;
  spec.dtype = args->dtype;
  spec.dim_qk = args->dim_qk;
  spec.dim_v = args->dim_v;
  spec.group = (int32_t)group;
  spec.causal = args->causal;
  spec.deterministic = args->deterministic;
  memcpy(spec.variants, variants, strlen(variants));
  *out = spec;
  return FA_OK;
}

/* Finds the kernel, or builds it where the stream allows. */
static fa_status find_kernel(const fa_kernel **out, fa_context *context, const fa_spec *spec,
                             struct CUstream_st *stream) {
  fa_spec resolved;
  int entered;
  if (!context) return fail(FA_INVALID, "context: NULL; create one with fa_context_create");
  fa_status status = kernel_resolve(&resolved, context, spec);
  if (status || (*out = registry_find(context->kernels, &resolved))) return status;
  status = context->backend->enter(context, stream, &entered);
  if (status) return status;
  status = context->backend->check_cold(context, stream);
  context->backend->leave(context, entered);
  return status ? status : registry_get(out, context->kernels, context, &resolved, kernel_build);
}

static fa_status run_pass(int pass, fa_context *context, const fa_args *args,
                          struct CUstream_st *stream) {
  fa_args taken;
  fa_spec spec;
  const fa_kernel *kernel;
  fa_status status = struct_take(&taken, sizeof taken, args, "fa_args");
  if (!status) status = derive_spec(&spec, pass, &taken);
  if (!status) status = find_kernel(&kernel, context, &spec, stream);
  return status ? status : launch(kernel, args, stream, 1);
}

FA_API fa_status fa_forward(fa_context *context, const fa_args *args, struct CUstream_st *stream) {
  return run_pass(FA_FWD, context, args, stream);
}

FA_API fa_status fa_backward(fa_context *context, const fa_args *args, struct CUstream_st *stream) {
  return run_pass(FA_BWD, context, args, stream);
}
