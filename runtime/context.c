/* context.c: opening and closing a device. */
#include "context.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_ops.h"
#include "error.h"
#include "gpu_probe.h"
#include "kernel.h"
#include "structs.h"

enum { MAX_THREADS = 1024 };

/* An environment variable, NULL when unset or empty. */
static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

const char *context_template_dir(const char *given) {
  return given ? (*given ? given : NULL) : environment("FA_TEMPLATE_DIR");
}

static int available_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}

static fa_status choose_threads(int *out, int32_t given) {
  const char *text = environment("FA_THREADS");
  long threads = given;
  if (!given && !text) {
    *out = available_processors();
    return FA_OK;
  }
  if (!given) {
    char *end;
    errno = 0;
    threads = strtol(text, &end, 10);
    if (errno || *end) threads = -1;
  }
  if (threads < 1 || threads > MAX_THREADS)
    return given ? fail(FA_INVALID, "threads: %d; must be 1 to %d, or 0", given, MAX_THREADS)
                 : fail(FA_INVALID, "FA_THREADS: '%s'; must be 1 to %d", text, MAX_THREADS);
  *out = (int)threads;
  return FA_OK;
}

static fa_status choose_log(int *out, const char *given) {
  const char *text = given ? given : environment("FA_LOG");
  *out = text && !strcmp(text, "info");
  if (!text || !*text || *out || !strcmp(text, "off")) return FA_OK;
  return fail(FA_INVALID, "log: '%s'; must be \"off\" or \"info\"", text);
}

static fa_status check_backend(const fa_options *options) {
  if (options->backend < FA_BACKEND_BEST || options->backend > FA_CUDA)
    return fail(FA_INVALID, "backend: %d; must be FA_BACKEND_BEST, FA_CPU or FA_CUDA",
                options->backend);
  if (options->device < 0)
    return fail(FA_INVALID, "device: %d; must be 0 or more", options->device);
  if (options->reserved) return fail(FA_INVALID, "fa_options.reserved: must be 0");
  if (options->backend == FA_CUDA) return gpu_probe(options->nvrtc);
  if (options->backend == FA_CPU && (options->device || options->cu_context))
    return fail(FA_INVALID, "%s: set, with backend FA_CPU",
                options->device ? "device" : "cu_context");
  return FA_OK;
}

static fa_status open_cpu(fa_context *context, const fa_options *options) {
  int threads = 1;
  const char *overlay = context_template_dir(options->template_dir);
  context->backend = FA_CPU;
  fa_status status = choose_log(&context->log, options->log);
  if (!status) status = choose_threads(&threads, options->threads);
  if (!status && overlay && !(context->template_dir = strdup(overlay)))
    status = fail(FA_NO_MEMORY, "context: out of memory");
  const fa_cpu_ops *ops = cpu_ops_best(&context->simd);
  if (!status) status = registry_create(&context->kernels);
  if (!status) status = cpu_pool_create(&context->pool, threads, ops);
  return status;
}

FA_API fa_status fa_context_create(fa_context **out, const fa_options *options) {
  fa_options taken = FA_OPTIONS_INIT;
  if (!out) return fail(FA_INVALID, "out: NULL; a place for the context is required");
  *out = NULL;
  fa_status status = options ? struct_take(&taken, sizeof taken, options, "fa_options") : FA_OK;
  if (!status) status = check_backend(&taken);
  if (status) return status;
  fa_context *context = calloc(1, sizeof *context);
  status = context ? open_cpu(context, &taken) : fail(FA_NO_MEMORY, "context: out of memory");
  if (status) {
    fa_context_destroy(context);
    return status;
  }
  *out = context;
  return FA_OK;
}

FA_API void fa_context_destroy(fa_context *context) {
  if (!context) return;
  registry_destroy(context->kernels, kernel_free);
  cpu_pool_destroy(context->pool);
  free(context->template_dir);
  free(context);
}

FA_API fa_status fa_context_info_get(fa_context_info *out, const fa_context *context) {
  fa_status status = struct_check_out(out, sizeof *out, "fa_context_info");
  if (status) return status;
  if (!context) return fail(FA_INVALID, "context: NULL");
  out->backend = context->backend;
  out->arch = 0;
  out->threads = cpu_pool_threads(context->pool);
  out->reserved = 0;
  out->simd = context->simd;
  return FA_OK;
}

FA_API int fa_version(void) {
  return FA_VERSION;
}
