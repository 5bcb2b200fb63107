/* context.c: opening and closing a device. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kernel.h"
#include "structs.h"

const char *context_environment(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

const char *context_template_dir(const char *given) {
  return given ? (*given ? given : NULL) : context_environment("FA_TEMPLATE_DIR");
}

static fa_status check_options(const fa_options *options) {
  if (options->backend < FA_BACKEND_BEST || options->backend > FA_CUDA)
    return fail(FA_INVALID, "backend: %d; must be FA_BACKEND_BEST, FA_CPU or FA_CUDA",
                options->backend);
  if (options->device < 0)
    return fail(FA_INVALID, "device: %d; must be 0 or more", options->device);
  if (options->device && options->cu_context)
    return fail(FA_INVALID, "device: %d; must be 0 beside a cu_context", options->device);
  if (options->reserved) return fail(FA_INVALID, "fa_options.reserved: must be 0");
  if (options->backend == FA_CPU && (options->device || options->cu_context))
    return fail(FA_INVALID, "%s: set, with backend FA_CPU",
                options->device ? "device" : "cu_context");
  return FA_OK;
}

/* What fa_context_info calls usable: statuses that mean "not on this machine", not "wrong". */
static int is_absence(fa_status status) {
  return status == FA_NO_DRIVER || status == FA_NO_NVRTC || status == FA_UNSUPPORTED ||
         status == FA_DRIVER;
}

static fa_status open_with(fa_context *context, const backend *kind, const fa_options *options) {
  context->backend = kind;
  fa_status status = kind->open(context, options);
  if (status) context->backend = NULL;
  return status;
}

/* A GPU that was asked for by name is never replaced by the processor. */
static fa_status open_device(fa_context *context, const fa_options *options) {
  if (options->backend == FA_CPU) return open_with(context, &cpu_backend, options);
  fa_status status = open_with(context, &cuda_backend, options);
  int named = options->backend == FA_CUDA || options->device || options->cu_context;
  if (!status || named || !is_absence(status)) return status;
  log_line(context->log, LOG_DEBUG, "no GPU is used: %.900s", fa_error_message());
  return open_with(context, &cpu_backend, options);
}

static fa_status fill(fa_context *context, const fa_options *options) {
  const char *overlay = context_template_dir(options->template_dir);
  context->log = (log_sink){LOG_OFF, options->log_function, options->log_user};
  fa_status status = log_choose(&context->log, options->log);
  if (!status && overlay && !(context->template_dir = strdup(overlay)))
    status = fail(FA_NO_MEMORY, "context: out of memory");
  if (!status) status = registry_create(&context->kernels, kernel_free);
  if (!status) status = open_device(context, options);
  if (!status && overlay)
    log_line(context->log, LOG_DEBUG, "templates: first those in %.900s", overlay);
  return status;
}

FA_API fa_status fa_context_create(fa_context **out, const fa_options *options) {
  fa_options taken = FA_OPTIONS_INIT;
  if (!out) return fail(FA_INVALID, "out: NULL; a place for the context is required");
  *out = NULL;
  fa_status status = options ? struct_take(&taken, sizeof taken, options, "fa_options") : FA_OK;
  if (!status) status = check_options(&taken);
  if (status) return status;
  fa_context *context = calloc(1, sizeof *context);
  status = context ? fill(context, &taken) : fail(FA_NO_MEMORY, "context: out of memory");
  if (status) {
    fa_context_destroy(context);
    return status;
  }
  *out = context;
  return FA_OK;
}

FA_API void fa_context_destroy(fa_context *context) {
  if (!context) return;
  registry_destroy(context->kernels);
  if (context->backend) context->backend->close(context);
  free(context->template_dir);
  free(context);
}

FA_API fa_status fa_context_info_get(fa_context_info *out, const fa_context *context) {
  fa_status status = struct_check_out(out, sizeof *out, "fa_context_info");
  if (status) return status;
  if (!context) return fail(FA_INVALID, "context: NULL");
  out->backend = context->backend->kind;
  out->arch = 0;
  out->threads = 0;
  out->reserved = 0;
  out->simd = "";
  context->backend->describe(out, context);
  return FA_OK;
}

FA_API int fa_version(void) {
  return FA_VERSION;
}
