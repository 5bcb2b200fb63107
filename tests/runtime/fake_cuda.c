/* fake_cuda.c: see fake_cuda.h. FAKE_CUDA=stub in the environment makes it the toolkit's stub,
   "old" a driver of CUDA 11.8, "older" one of 12.4, "empty" a driver without a device. */
#include "fake_cuda.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_fault.h"

enum { CUDA_ERROR_UNKNOWN = 999 };

#define EXPORT __attribute__((visibility("default")))

/* All that are loaded: the driver's own, whoever forgets them. */
struct CUmod_st {
  CUmodule before, after;
};
static struct CUmod_st modules = {&modules, &modules};

struct CUfunc_st {
  char name[320];
};

EXPORT fake_cuda fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUcontext stack[8];
static _Thread_local int depth;
static _Thread_local int capture_mode;

EXPORT void fake_reset(void) {
  memset(&fake, 0, sizeof fake);
  fake.version = 13000;
  fake.device_count = FAKE_DEVICES;
  fake.devices[0] = (fake_device){9, 0, 132, 50 << 20, 232448, 1};
  fake.devices[1] = (fake_device){8, 6, 84, 6 << 20, 101376, 1};
  fake.devices[2] = (fake_device){8, 0, 108, 40 << 20, 166912, 1};
  fake.num_parameters = 1;
  for (int i = 0; i < FAKE_DEVICES; ++i) fake.primary[i].device = i;
  stack[0] = NULL;
  depth = capture_mode = 0;
}

__attribute__((constructor)) static void begin(void) {
  fake_reset();
}

EXPORT void fake_make_current(CUcontext context) {
  stack[depth] = context;
}

EXPORT CUcontext fake_current(void) {
  return stack[depth];
}

EXPORT int fake_capture_mode(void) {
  return capture_mode;
}

EXPORT void fake_add_memory(void *begin_at, size_t bytes, int type, int device, CUcontext owner,
                            int managed) {
  fake_memory *memory = &fake.memories[fake.num_memories++];
  *memory = (fake_memory){begin_at, bytes, type, device, managed, owner};
}

/* ---- Devices and contexts -------------------------------------------------------------------- */

EXPORT CUresult cuInit(unsigned flags) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  const char *kind = getenv("FAKE_CUDA");
  (void)flags;
  if (kind && !strcmp(kind, "stub")) return CUDA_ERROR_STUB_LIBRARY;
  if (kind && !strcmp(kind, "empty")) return 100;
  if (kind && !strcmp(kind, "old")) fake.version = 11080;
  if (kind && !strcmp(kind, "older")) fake.version = 12040;
  usleep((unsigned)fake.init_ms * 1000u);
  return fake.init_result;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  *version = fake.version;
  return 0;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **text) {
  const char *kind = getenv("FAKE_CUDA");
  if (kind && !strcmp(kind, "stub")) return CUDA_ERROR_STUB_LIBRARY;
  *text = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_FAKE";
  return 0;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == 100 ? "no CUDA-capable device is detected" : "an error that the test asked for";
  return 0;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  *count = fake.device_count;
  return 0;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  *device = ordinal;
  return ordinal < fake.device_count ? 0 : 101;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  const fake_device *of = &fake.devices[device];
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? of->major
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR          ? of->minor
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT              ? of->processors
           : attribute == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE                     ? of->l2_bytes
           : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? of->shared_bytes
           : attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED            ? of->pools
                                                                                : -1;
  return *value < 0;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  *context = &fake.primary[device];
  ++fake.primary[device].holders;
  return 0;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  --fake.primary[device].holders;
  return fault_code(__func__, CUDA_ERROR_UNKNOWN);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  *context = stack[depth];
  return 0;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  if (!stack[depth]) return 201;
  *device = stack[depth]->device;
  return 0;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  if (depth == 7) return 1;
  stack[++depth] = context;
  return 0;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  if (!depth) return 201;
  *context = stack[depth--];
  return fault_code(__func__, CUDA_ERROR_UNKNOWN);
}

/* ---- Modules --------------------------------------------------------------------------------- */

static CUmodule keep_module(void) {
  CUmodule fresh = malloc(sizeof *fresh);
  pthread_mutex_lock(&lock);
  *fresh = (struct CUmod_st){&modules, modules.after};
  modules.after->before = fresh;
  modules.after = fresh;
  pthread_mutex_unlock(&lock);
  return fresh;
}

static void drop_module(CUmodule module) {
  pthread_mutex_lock(&lock);
  module->before->after = module->after;
  module->after->before = module->before;
  pthread_mutex_unlock(&lock);
  free(module);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  if (!stack[depth]) return 201;
  if (memcmp(image, ELFMAG, SELFMAG)) return CUDA_ERROR_INVALID_IMAGE;
  pthread_mutex_lock(&lock);
  ++fake.module_loads;
  fake.loads_under_strict_capture += capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  pthread_mutex_unlock(&lock);
  *module = fake.module_result ? NULL : keep_module();
  return fake.module_result;
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
  if (!stack[depth]) return 201;
  ++fake.module_unloads;
  drop_module(module);
  return fault_code(__func__, CUDA_ERROR_UNKNOWN);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  static struct CUfunc_st all[256];
  static int count;
  (void)module;
  pthread_mutex_lock(&lock);
  *function = &all[count++ % 256];
  snprintf((*function)->name, sizeof(*function)->name, "%s", name);
  pthread_mutex_unlock(&lock);
  return 0;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  (void)function;
  *value = attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 1024 : 40;
  return 0;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  (void)function;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return 1;
  ++fake.limits_set;
  return value > fake.devices[stack[depth]->device].shared_bytes - 1024;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

/* ---- Launches -------------------------------------------------------------------------------- */

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  if (!stack[depth] || extra) return 1;
  if (fake.is_quiet) return 0;
  pthread_mutex_lock(&lock);
  fake_launch *launch = &fake.launches[fake.num_launches++ % FAKE_LAUNCHES];
  memset(launch, 0, sizeof *launch);
  snprintf(launch->entry, sizeof launch->entry, "%s", function->name);
  launch->config = *config;
  launch->current = stack[depth];
  for (unsigned i = 0; i < config->numAttrs && i < 4; ++i) launch->attributes[i] = config->attrs[i];
  for (int i = 0; i < fake.num_parameters; ++i) launch->parameters[i] = parameters[i];
  if (fake.argument_bytes)
    memcpy(launch->arguments, parameters[fake.num_parameters - 1], (size_t)fake.argument_bytes);
  pthread_mutex_unlock(&lock);
  return 0;
}

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, unsigned rank, void *base,
                                       const unsigned long long *extent,
                                       const unsigned long long *stride_bytes, const unsigned *box,
                                       const unsigned *element_strides, int interleave, int swizzle,
                                       int l2_promotion, int oob_fill) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  (void)base, (void)box, (void)interleave, (void)oob_fill;
  ++fake.tensor_maps;
  fake.map_out = map;
  fake.map_type = type;
  fake.map_swizzle = swizzle;
  fake.map_promotion = l2_promotion;
  for (unsigned i = 0; i < rank; ++i) fake.map_extent[i] = extent[i];
  for (unsigned i = 0; i + 1 < rank; ++i) fake.map_stride[i] = stride_bytes[i];
  return element_strides[0] != 1;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  (void)stream;
  ++fake.synchronisations;
  return 0;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  *status = stream ? stream->capturing : 0;
  return 0;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static CUresult allocate(CUdeviceptr *address, size_t bytes) {
  if (!stack[depth]) return 201;
  if (fake.memory_result) return fake.memory_result;
  void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  fake_add_memory(memory, bytes, CU_MEMORYTYPE_DEVICE, stack[depth]->device, stack[depth], 0);
  *address = (uintptr_t)memory;
  return 0;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  ++fake.allocations;
  return allocate(address, bytes);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  ++fake.frees;
  free((void *)(uintptr_t)address);
  return fault_code(__func__, CUDA_ERROR_UNKNOWN);
}

/* Any address but NULL is a pool here. */
EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return 1;
  ++fake.pools;
  *pool = (CUmemoryPool)&fake.pools;
  return 0;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  return !pool || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || !value;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (!pool) return 1;
  --fake.pools;
  return fault_code(__func__, CUDA_ERROR_UNKNOWN);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
                                        CUstream stream) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  if (!pool) return 1;
  CUresult result = allocate(address, bytes);
  ++fake.workspaces_taken;
  fake.workspace_from = stream;
  fake.workspace = result ? NULL : (void *)(uintptr_t)*address;
  return result;
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  ++fake.workspaces_given;
  fake.workspace_to = stream;
  fake.launches_at_give = fake.num_launches;
  free((void *)(uintptr_t)address);
  return fault_code(__func__, CUDA_ERROR_UNKNOWN);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  (void)stream;
  memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  return 0;
}

/* As the real one: what is not known has zeros, and is no error. */
EXPORT CUresult cuPointerGetAttributes(unsigned count, const int *attributes, void **values,
                                       CUdeviceptr address) {
  if (fault_code(__func__, CUDA_ERROR_UNKNOWN)) return CUDA_ERROR_UNKNOWN;
  static const fake_memory unknown;
  const fake_memory *found = &unknown;
  for (int i = 0; i < fake.num_memories; ++i) {
    const fake_memory *at = &fake.memories[i];
    if (address - (uintptr_t)at->begin < at->bytes) found = at;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
      *(CUcontext *)values[i] = found->owner;
    else
      *(int *)values[i] = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE      ? found->type
                          : attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? found->device
                                                                                 : found->managed;
  }
  return 0;
}
