/* cuda_kernel.c: GPU code onto the device, and its launch plan beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "cuda_device.h"
#include "error.h"

/* Puts one entry on the device now: a launch, perhaps under capture, must not be the first use. */
static fa_status load_function(cuda_code *code, const cubin_entry *entry,
                               const cuda_device *device) {
  const driver *cu = device->cu;
  cuda_function *to = &code->functions[code->num_functions++];
  int shared_bytes = 0;
  snprintf(to->name, sizeof to->name, "%s", entry->name);
  fa_status status = driver_check(
      cu, cu->ModuleGetFunction(&to->function, code->module, entry->name), entry->name);
  if (!status)
    status = driver_check(
        cu, cu->FuncGetAttribute(&shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, to->function),
        "cuFuncGetAttribute");
  to->dynamic_limit = device->shared_bytes - shared_bytes;
  if (!status && to->dynamic_limit < 0)
    status = fail(FA_UNSUPPORTED, "%s: %d bytes of shared memory a block; this device has %d",
                  entry->name, shared_bytes, device->shared_bytes);
  if (!status)
    status = driver_check(cu,
                          cu->FuncSetAttribute(to->function,
                                               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                               to->dynamic_limit),
                          "cuFuncSetAttribute");
  return status;
}

/* A binary that the driver refuses was made for another device or by a compiler newer than it
   knows. */
static void describe_refusal(char *out, size_t bytes, const driver *cu, const char *compiler) {
  const int newer = nvrtc_version_of(compiler) > cu->version;
  snprintf(out, bytes, "the driver, of CUDA %d.%d, does not load what NVRTC %.*s compiled%s",
           cu->version / 1000, cu->version % 1000 / 10, (int)strcspn(compiler, " "), compiler,
           newer ? "; take an NVRTC no newer than the driver (FA_NVRTC)" : "");
}

static fa_status load_module(cuda_code *code, const cuda_binary *binary,
                             const cuda_device *device) {
  const driver *cu = device->cu;
  char what[160];
  describe_refusal(what, sizeof what, cu, binary->compiler);
  fa_status status = driver_check(cu, cu->ModuleLoadData(&code->module, binary->code.image), what);
  for (int i = 0; !status && i < binary->code.num_entries; ++i)
    status = load_function(code, &binary->code.entries[i], device);
  return status;
}

/* Loading disturbs no capture: neither one of this thread's nor, where the capture is global,
   another's. */
static fa_status load_code(fa_kernel *kernel, const cuda_binary *binary) {
  const cuda_device *device = kernel->context->device;
  int entered, mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  fa_status status = cuda_enter(kernel->context, NULL, &entered);
  if (status) return status;
  device->cu->ThreadExchangeStreamCaptureMode(&mode);
  status = load_module(kernel->device_code, binary, device);
  device->cu->ThreadExchangeStreamCaptureMode(&mode);
  cuda_leave(kernel->context, entered);
  return status;
}

static fa_status compile_plan(fa_kernel *kernel) {
  char file_name[FA_NAME_MAX + 16];
  snprintf(file_name, sizeof file_name, "%s_launch.c", kernel->name);
  const render_text text = {.text = kernel->launch_source};
  const jit_unit unit = {file_name, &text};
  fa_status status = kernel_compile_plan(kernel, &unit, 1);
  if (!status) jit_seal(kernel->code);
  return status;
}

static const cubin_entry *find_entry(const cubin *binary, const char *name) {
  for (int i = 0; i < binary->num_entries; ++i)
    if (!strcmp(binary->entries[i].name, name)) return &binary->entries[i];
  return NULL;
}

/* The largest of all entries; what a step takes dynamically is the smallest problem's. */
static fa_status describe(fa_kernel *kernel, const cubin *binary) {
  fa_kernel_info *info = &kernel->info;
  fa_plan plan;
  for (int i = 0; i < binary->num_entries; ++i) {
    const cubin_entry *entry = &binary->entries[i];
    if (entry->registers > info->registers) info->registers = entry->registers;
    if (entry->spill_bytes > info->spill_bytes) info->spill_bytes = entry->spill_bytes;
    if (entry->shared_bytes > info->shared_bytes) info->shared_bytes = entry->shared_bytes;
  }
  fa_status status = kernel_plan_smallest(kernel, &plan);
  if (status) return status;
  for (int i = 0; i < plan.num_steps; ++i) {
    const fa_step *step = &plan.steps[i];
    const cubin_entry *entry = find_entry(binary, step->entry);
    if (!entry)
      return fail(FA_COMPILE, "%s: the plan names an entry that the kernel lacks", step->entry);
    int shared_bytes = entry->shared_bytes + (int)step->shared_bytes;
    if (shared_bytes > info->shared_bytes) info->shared_bytes = shared_bytes;
  }
  return FA_OK;
}

static void keep_texts(fa_kernel *kernel, cuda_binary *binary) {
  kernel->source = binary->source;
  kernel->launch_source = binary->launch_source;
  binary->source = binary->launch_source = NULL;
}

fa_status cuda_build(fa_kernel *kernel) {
  const cuda_device *device = kernel->context->device;
  cuda_binary binary;
  fa_status status = driver_check_fork(device->cu);
  if (status) return status;
  if (!(kernel->device_code = calloc(1, sizeof(cuda_code))))
    return fail(FA_NO_MEMORY, "kernel: out of memory");
  status = cuda_build_or_load(&binary, &kernel->spec, &device->tools);
  if (status) return status;
  double built = clock_ms();
  keep_texts(kernel, &binary);
  status = params_parse(&kernel->params, binary.params);
  if (!status) status = compile_plan(kernel);
  if (!status) status = describe(kernel, &binary.code);
  if (!status) status = load_code(kernel, &binary);
  kernel->info.origin = binary.origin;
  kernel->info.render_ms = binary.render_ms;
  kernel->info.compile_ms = binary.compile_ms;
  kernel->info.load_ms = binary.read_ms + clock_ms() - built;
  cuda_binary_free(&binary);
  return status;
}

void cuda_unload(fa_kernel *kernel) {
  cuda_code *code = kernel->device_code;
  const cuda_device *device = kernel->context->device;
  int entered, mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (code && code->module && !cuda_enter(kernel->context, NULL, &entered)) {
    device->cu->ThreadExchangeStreamCaptureMode(&mode);
    device->cu->ModuleUnload(code->module);
    device->cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave(kernel->context, entered);
  }
  free(code);
}
