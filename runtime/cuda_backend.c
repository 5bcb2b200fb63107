/* cuda_backend.c: an NVIDIA GPU as a device: which one, whose memory, in which order. */
#include "backend.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "cuda_arch.h"
#include "cuda_device.h"
#include "error.h"
#include "nvrtc.h"
#include "spec.h"

/* ---- Opening --------------------------------------------------------------------------------- */

static fa_status device_of_context(CUdevice *out, const driver *cu, CUcontext current) {
  CUcontext popped;
  fa_status status = driver_check(cu, cu->CtxPushCurrent(current), "cu_context: cuCtxPushCurrent");
  if (status) return status;
  status = driver_check(cu, cu->CtxGetDevice(out), "cu_context: cuCtxGetDevice");
  cu->CtxPopCurrent(&popped);
  return status;
}

/* options.device: 0 is the thread's current device, else the first; n is ordinal n - 1. */
static fa_status choose_device(CUdevice *out, const driver *cu, const fa_options *options) {
  int count = 0;
  CUcontext current = NULL;
  if (options->cu_context) return device_of_context(out, cu, options->cu_context);
  fa_status status = driver_check(cu, cu->DeviceGetCount(&count), "cuDeviceGetCount");
  if (status) return status;
  if (!count) return fail(FA_NO_DRIVER, "the CUDA driver is there but sees no device");
  if (options->device > count)
    return fail(FA_INVALID, "device: %d; must be 0 to %d, the number of devices", options->device,
                count);
  if (!options->device && !cu->CtxGetCurrent(&current) && current)
    return driver_check(cu, cu->CtxGetDevice(out), "cuCtxGetDevice");
  int ordinal = options->device ? options->device - 1 : 0;
  return driver_check(cu, cu->DeviceGet(out, ordinal), "cuDeviceGet");
}

static fa_status read_attributes(cuda_device *device, fa_context *context) {
  int major = 0, minor = 0, l2_bytes = 0;
  const struct {
    int attribute, *to;
  } wanted[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &context->processors},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device->shared_bytes},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &device->has_pools},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    CUresult code =
        device->cu->DeviceGetAttribute(wanted[i].to, wanted[i].attribute, device->ordinal);
    fa_status status = driver_check(device->cu, code, "cuDeviceGetAttribute");
    if (status) return status;
  }
  context->l2_bytes = l2_bytes;
  return cuda_arch_of(&device->arch, major, minor);
}

static fa_status take_driver_context(cuda_device *device, const fa_options *options) {
  device->current = options->cu_context;
  if (device->current) return FA_OK;
  CUresult code = device->cu->DevicePrimaryCtxRetain(&device->current, device->ordinal);
  device->retained = !code;
  return driver_check(device->cu, code, "cuDevicePrimaryCtxRetain");
}

/* The driver's own pool gives all memory back whenever a stream is waited for, and to map it anew
   takes longer than most kernels; so workspaces come from a pool that keeps this much between calls.
   Programs that want more, or none, bring their own workspace. */
static const uint64_t kept_bytes = 256 << 20;

static fa_status create_pool(cuda_device *device) {
  const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal}};
  uint64_t threshold = kept_bytes;
  if (!device->has_pools) return FA_OK;
  fa_status status = driver_check(device->cu, device->cu->MemPoolCreate(&device->pool, &properties),
                                  "cuMemPoolCreate");
  if (status) return status;
  return driver_check(
      device->cu,
      device->cu->MemPoolSetAttribute(device->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
      "cuMemPoolSetAttribute");
}

/* Kernels come from NVRTC, or from the folder that it filled once. */
static fa_status prepare_tools(cuda_device *device, fa_context *context,
                               const fa_options *options) {
  char identity[NVRTC_IDENTITY];
  const char *library = options->nvrtc ? options->nvrtc : context_environment("FA_NVRTC");
  device->tools.template_dir = context->template_dir;
  device->tools.log = context->log;
  device->tools.kept = cache_open(options->cache_dir, context->log);
  if (library && !(device->tools.nvrtc = strdup(library)))
    return fail(FA_NO_MEMORY, "context: out of memory");
  for (int pass = FA_FWD; pass <= FA_BWD; ++pass) {
    char file[32];
    snprintf(file, sizeof file, "sm90/%s.cu.lua", spec_pass_word(pass));
    if (bundle_has(context->template_dir, file)) device->sm90 |= 1u << pass;
  }
  return nvrtc_identify(identity, device->tools.nvrtc, device->tools.kept);
}

static void close_device(cuda_device *device) {
  /* At the end of a process the driver may be gone before us; then there is nothing left to
     release. */
  if (!driver_check_fork(device->cu)) {
    if (device->pool) device->cu->MemPoolDestroy(device->pool);
    if (device->retained) device->cu->DevicePrimaryCtxRelease(device->ordinal);
  }
  cache_close(device->tools.kept);
  free((char *)device->tools.nvrtc);
  free(device);
}

static fa_status cuda_open(fa_context *context, const fa_options *options) {
  const driver *cu;
  fa_status status = driver_open(&cu);
  if (status) return status;
  cuda_device *device = calloc(1, sizeof *device);
  if (!device) return fail(FA_NO_MEMORY, "context: out of memory");
  device->cu = cu;
  status = choose_device(&device->ordinal, cu, options);
  if (!status) status = read_attributes(device, context);
  if (!status) status = prepare_tools(device, context, options);
  if (!status) status = take_driver_context(device, options);
  if (!status) status = create_pool(device);
  if (status) {
    close_device(device);
    return status;
  }
  context->device = device;
  log_line(context->log, LOG_INFO, "opened CUDA device %d: kernels of cc%d, driver of CUDA %d.%d",
           device->ordinal, device->arch, cu->version / 1000, cu->version % 1000 / 10);
  return FA_OK;
}

static void cuda_close(fa_context *context) {
  close_device(context->device);
}

static void cuda_describe(fa_context_info *out, const fa_context *context) {
  const cuda_device *device = context->device;
  out->arch = device->arch;
}

static fa_status cuda_resolve(fa_spec *spec, const fa_context *context) {
  const cuda_device *device = context->device;
  return cuda_arch_resolve(spec, device->arch, device->sm90 >> spec->pass & 1);
}

/* ---- Launches -------------------------------------------------------------------------------- */

fa_status cuda_enter(const fa_context *context, struct CUstream_st *stream, int *entered) {
  (void)stream;
  const cuda_device *device = context->device;
  CUcontext now = NULL;
  *entered = 0;
  fa_status status = driver_check_fork(device->cu);
  if (status) return status;
  if (!device->cu->CtxGetCurrent(&now) && now == device->current) return FA_OK;
  status =
      driver_check(device->cu, device->cu->CtxPushCurrent(device->current), "cuCtxPushCurrent");
  *entered = !status;
  return status;
}

void cuda_leave(const fa_context *context, int entered) {
  const cuda_device *device = context->device;
  CUcontext popped;
  if (entered) device->cu->CtxPopCurrent(&popped);
}

static fa_status cuda_check_cold(const fa_context *context, struct CUstream_st *stream) {
  const cuda_device *device = context->device;
  int capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!stream) return FA_OK; /* the legacy stream cannot be captured */
  fa_status status = driver_check(device->cu, device->cu->StreamIsCapturing(stream, &capturing),
                                  "cuStreamIsCapturing");
  if (status || capturing == CU_STREAM_CAPTURE_STATUS_NONE) return status;
  return fail(FA_CAPTURE, "stream: it is capturing, and this kernel is not built yet; call "
                          "fa_get_kernel or fa_prebuild before the capture begins");
}

static const char *const where_memory_is[] = {"the host", "the host", "a CUDA device", "an array",
                                              "unified memory"};

/* One query. Memory of a pool or of a mapping belongs to a device and to no context. */
static fa_status cuda_check_memory(const fa_context *context, const char *field,
                                   const void *address) {
  const cuda_device *device = context->device;
  unsigned long long type = 0, ordinal = 0, managed = 0;
  CUcontext owner = NULL;
  const int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *values[] = {&type, &owner, &ordinal, &managed};
  fa_status status = driver_check(
      device->cu, device->cu->PointerGetAttributes(4, attributes, values, (uintptr_t)address),
      "cuPointerGetAttributes");
  if (status || (unsigned char)managed) return status;
  if ((unsigned)type != CU_MEMORYTYPE_DEVICE)
    return fail(FA_INVALID, "%s: address %p is in %s; memory of CUDA device %d is required", field,
                address, where_memory_is[(unsigned)type <= 4 ? type : 0], device->ordinal);
  if ((int)ordinal != device->ordinal)
    return fail(FA_INVALID, "%s: address %p is memory of CUDA device %d; the context is on %d",
                field, address, (int)ordinal, device->ordinal);
  if (owner && owner != device->current)
    return fail(FA_INVALID, "%s: address %p is memory of another CUDA context of the device", field,
                address);
  return FA_OK;
}

static fa_status cuda_take_workspace(void **out, const fa_context *context, size_t bytes,
                                     struct CUstream_st *stream) {
  const cuda_device *device = context->device;
  CUdeviceptr address = 0;
  char what[64];
  if (!device->pool)
    return fail(FA_UNSUPPORTED,
                "workspace: NULL, and this device has no memory in stream order; %zu bytes are "
                "required (fa_workspace_size)",
                bytes);
  snprintf(what, sizeof what, "workspace of %zu bytes", bytes);
  fa_status status = driver_check(
      device->cu, device->cu->MemAllocFromPoolAsync(&address, bytes, device->pool, stream), what);
  *out = (void *)(uintptr_t)address;
  return status;
}

static void cuda_give_workspace(const fa_context *context, void *workspace,
                                struct CUstream_st *stream) {
  const cuda_device *device = context->device;
  device->cu->MemFreeAsync((uintptr_t)workspace, stream);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static fa_status cuda_alloc(void **out, const fa_context *context, size_t bytes) {
  const cuda_device *device = context->device;
  CUdeviceptr address = 0;
  char what[64];
  snprintf(what, sizeof what, "bytes: %zu", bytes);
  fa_status status = driver_check(device->cu, device->cu->MemAlloc(&address, bytes), what);
  *out = (void *)(uintptr_t)address;
  return status;
}

static void cuda_free(const fa_context *context, void *memory) {
  const cuda_device *device = context->device;
  device->cu->MemFree((uintptr_t)memory);
}

static fa_status cuda_copy(const fa_context *context, void *to, const void *from, size_t bytes,
                           struct CUstream_st *stream) {
  const cuda_device *device = context->device;
  const driver *cu = device->cu;
  CUresult code = cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, stream);
  fa_status status = driver_check(cu, code, "cuMemcpyAsync");
  return status ? status : driver_check(cu, cu->StreamSynchronize(stream), "cuStreamSynchronize");
}

const backend cuda_backend = {
    .kind = FA_CUDA,
    .vector_bytes = 16,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .resolve = cuda_resolve,
    .build = cuda_build,
    .unload = cuda_unload,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .check_cold = cuda_check_cold,
    .check_memory = cuda_check_memory,
    .run = cuda_run,
    .take_workspace = cuda_take_workspace,
    .give_workspace = cuda_give_workspace,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = cuda_copy,
};
