/* cpu_backend.c: the processor as a device: emitted C compiled in memory, run by a few threads. */
#include "backend.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "context.h"
#include "cpu_ops.h"
#include "cpu_pool.h"
#include "error.h"
#include "kernel.h"
#include "render.h"
#include "spec.h"

enum { MAX_THREADS = 1024, ALIGNMENT = 256 };

typedef struct cpu_device {
  cpu_pool *pool;
  const char *simd;
} cpu_device;

typedef struct cpu_entry {
  const char *name; /* as the plan's steps give it */
  fa_cpu_entry run;
} cpu_entry;

typedef struct cpu_code {
  cpu_entry entries[FA_PLAN_MAX_STEPS];
  int num_entries;
} cpu_code;

/* ---- The device ----------------------------------------------------------------------------- */

static int available_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}

static fa_status choose_threads(int *out, int32_t given) {
  const char *text = context_environment("FA_THREADS");
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

static fa_status cpu_open(fa_context *context, const fa_options *options) {
  int threads = 1;
  fa_status status = choose_threads(&threads, options->threads);
  if (status) return status;
  cpu_device *device = calloc(1, sizeof *device);
  if (!device) return fail(FA_NO_MEMORY, "context: out of memory");
  const fa_cpu_ops *ops = cpu_ops_best(&device->simd);
  status = cpu_pool_create(&device->pool, threads, ops);
  if (status) {
    free(device);
    return status;
  }
  context->device = device;
  context->processors = threads;
  log_line(context->log, LOG_INFO, "opened the processor: %d threads, %s", threads, device->simd);
  return FA_OK;
}

static void cpu_close(fa_context *context) {
  cpu_device *device = context->device;
  cpu_pool_destroy(device->pool);
  free(device);
}

static void cpu_describe(fa_context_info *out, const fa_context *context) {
  const cpu_device *device = context->device;
  out->threads = cpu_pool_threads(device->pool);
  out->simd = device->simd;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

static fa_status cpu_resolve(fa_spec *spec, const fa_context *context) {
  (void)context;
  if (spec->target == FA_TARGET_BEST) spec->target = FA_TARGET_CPU;
  if (spec->target == FA_TARGET_CPU) return FA_OK;
  return fail(FA_UNSUPPORTED, "target: %s does not run on a cpu context",
              spec_target_word(spec->target));
}

/* Finds the entries that the plan names. */
static fa_status find_entries(fa_kernel *kernel) {
  fa_plan plan;
  cpu_code *code = kernel->device_code;
  fa_status status = kernel_plan_smallest(kernel, &plan);
  if (status) return status;
  for (int i = 0; i < plan.num_steps; ++i) {
    cpu_entry *entry = &code->entries[code->num_entries++];
    entry->name = plan.steps[i].entry;
    entry->run = (fa_cpu_entry)jit_symbol(kernel->code, entry->name);
    if (!entry->run)
      return fail(FA_COMPILE, "%s: the plan names an entry that the kernel lacks", entry->name);
    int scratch = (int)plan.steps[i].shared_bytes;
    if (scratch > kernel->info.shared_bytes) kernel->info.shared_bytes = scratch;
  }
  return FA_OK;
}

static fa_status compile(fa_kernel *kernel, const render_result *text) {
  char kernel_file[FA_NAME_MAX + 16], launch_file[FA_NAME_MAX + 16];
  snprintf(kernel_file, sizeof kernel_file, "%s.c", kernel->name);
  snprintf(launch_file, sizeof launch_file, "%s_launch.c", kernel->name);
  const jit_unit units[] = {{kernel_file, &text->kernel}, {launch_file, &text->launch}};
  fa_status status = kernel_compile_plan(kernel, units, 2);
  if (status) return status;
  status = find_entries(kernel);
  jit_seal(kernel->code);
  return status;
}

static void keep_texts(fa_kernel *kernel, render_result *text) {
  kernel->params = text->params;
  kernel->source = text->kernel.text;
  kernel->launch_source = text->launch.text;
  text->kernel.text = text->launch.text = NULL;
}

static fa_status cpu_build(fa_kernel *kernel) {
  const cpu_device *device = kernel->context->device;
  render_result text;
  if (!(kernel->device_code = calloc(1, sizeof(cpu_code))))
    return fail(FA_NO_MEMORY, "kernel: out of memory");
  double start = clock_ms();
  fa_status status = render_spec(&text, &kernel->spec, kernel->context->template_dir);
  if (status) return status;
  double rendered = clock_ms();
  status = compile(kernel, &text);
  kernel->info.origin = FA_BUILT;
  kernel->info.render_ms = rendered - start;
  kernel->info.compile_ms = clock_ms() - rendered;
  if (!status) status = cpu_pool_reserve(device->pool, (size_t)kernel->info.shared_bytes);
  keep_texts(kernel, &text);
  render_free(&text);
  return status;
}

static void cpu_unload(fa_kernel *kernel) {
  free(kernel->device_code);
}

/* ---- Launches ------------------------------------------------------------------------------- */

static fa_status cpu_enter(const fa_context *context, struct CUstream_st *stream, int *entered) {
  (void)context;
  *entered = 0;
  return stream ? fail(FA_INVALID, "stream: %p; must be NULL on cpu", (void *)stream) : FA_OK;
}

static void cpu_leave(const fa_context *context, int entered) {
  (void)context, (void)entered;
}

static fa_status cpu_check_cold(const fa_context *context, struct CUstream_st *stream) {
  (void)context, (void)stream;
  return FA_OK;
}

/* The processor reaches all memory that the caller does; there is nothing to ask. */
static fa_status cpu_check_memory(const fa_context *context, const char *field,
                                  const void *address) {
  (void)context, (void)field, (void)address;
  return FA_OK;
}

static fa_cpu_entry find_entry(const cpu_code *code, const char *name) {
  for (int i = 0; i < code->num_entries; ++i)
    if (!strcmp(code->entries[i].name, name)) return code->entries[i].run;
  return NULL;
}

static fa_status cpu_run(const fa_kernel *kernel, const fa_plan *plan, struct CUstream_st *stream) {
  (void)stream;
  const cpu_device *device = kernel->context->device;
  cpu_grid grids[FA_PLAN_MAX_STEPS];
  for (int i = 0; i < plan->num_steps; ++i) {
    const fa_step *step = &plan->steps[i];
    grids[i] = (cpu_grid){.entry = find_entry(kernel->device_code, step->entry),
                          .args = step->args,
                          .size = {step->grid[0], step->grid[1], step->grid[2]}};
    if (!grids[i].entry)
      return fail(FA_TEMPLATE, "%s: the plan names an entry the kernel lacks", step->entry);
  }
  return cpu_pool_run(device->pool, grids, plan->num_steps);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static fa_status cpu_alloc(void **out, const fa_context *context, size_t bytes) {
  (void)context;
  *out = NULL;
  if (bytes <= SIZE_MAX - ALIGNMENT)
    *out = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  return *out ? FA_OK : fail(FA_NO_MEMORY, "bytes: %zu; the system has no such memory", bytes);
}

static void cpu_free(const fa_context *context, void *memory) {
  (void)context;
  free(memory);
}

static fa_status cpu_copy(const fa_context *context, void *to, const void *from, size_t bytes,
                          struct CUstream_st *stream) {
  (void)context, (void)stream;
  memmove(to, from, bytes);
  return FA_OK;
}

static fa_status cpu_take_workspace(void **out, const fa_context *context, size_t bytes,
                                    struct CUstream_st *stream) {
  (void)stream;
  return cpu_alloc(out, context, bytes);
}

static void cpu_give_workspace(const fa_context *context, void *workspace,
                               struct CUstream_st *stream) {
  (void)stream;
  cpu_free(context, workspace);
}

const backend cpu_backend = {
    .kind = FA_CPU,
    .vector_bytes = 1,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .resolve = cpu_resolve,
    .build = cpu_build,
    .unload = cpu_unload,
    .enter = cpu_enter,
    .leave = cpu_leave,
    .check_cold = cpu_check_cold,
    .check_memory = cpu_check_memory,
    .run = cpu_run,
    .take_workspace = cpu_take_workspace,
    .give_workspace = cpu_give_workspace,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy = cpu_copy,
};
