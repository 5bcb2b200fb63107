/* driver.h: the CUDA driver, opened at run time and never linked. The declarations are those of the
   CUDA driver API that this library uses, in its own names, so that building needs no toolkit. */
#ifndef FAGEN_RUNTIME_DRIVER_H
#define FAGEN_RUNTIME_DRIVER_H

#include "fagen.h"

typedef int CUresult; /* 0 is success */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

enum {
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,

  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,

  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,

  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_MEMORYTYPE_DEVICE = 2,

  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,

  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,

  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,

  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8,
  CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
  CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
  CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0
};

typedef union CUlaunchAttributeValue {
  char pad[64];
  int cooperative;
  struct {
    unsigned x, y, z;
  } clusterDim;
  int programmaticStreamSerializationAllowed;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute {
  int id;
  char pad[8 - sizeof(int)];
  CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
} CUlaunchConfig;

typedef struct CUtensorMap {
  _Alignas(128) unsigned long long opaque[16];
} CUtensorMap;

typedef struct CUmemLocation {
  int type, id;
} CUmemLocation;

typedef struct CUmemPoolProps {
  int allocType, handleTypes;
  CUmemLocation location;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
} CUmemPoolProps;

/* Member, exported symbol, parameters. The symbol carries the version of the interface. */
#define DRIVER_FUNCTIONS(X)                                                                        \
  X(Init, "cuInit", (unsigned flags))                                                              \
  X(DriverGetVersion, "cuDriverGetVersion", (int *version))                                        \
  X(GetErrorName, "cuGetErrorName", (CUresult error, const char **text))                           \
  X(GetErrorString, "cuGetErrorString", (CUresult error, const char **text))                       \
  X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                              \
  X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                    \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))      \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))    \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                    \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                       \
  X(CtxGetDevice, "cuCtxGetDevice", (CUdevice * device))                                           \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                    \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                    \
  X(ModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void *image))                    \
  X(ModuleUnload, "cuModuleUnload", (CUmodule module))                                             \
  X(ModuleGetFunction, "cuModuleGetFunction",                                                      \
    (CUfunction * function, CUmodule module, const char *name))                                    \
  X(FuncGetAttribute, "cuFuncGetAttribute", (int *value, int attribute, CUfunction function))      \
  X(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))       \
  X(LaunchKernelEx, "cuLaunchKernelEx",                                                            \
    (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))          \
  X(TensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                \
    (CUtensorMap * map, int type, unsigned rank, void *base, const unsigned long long *extent,     \
     const unsigned long long *stride_bytes, const unsigned *box, const unsigned *element_strides, \
     int interleave, int swizzle, int l2_promotion, int oob_fill))                                 \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                              \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr address))                                                \
  X(MemPoolCreate, "cuMemPoolCreate", (CUmemoryPool * pool, const CUmemPoolProps *properties))     \
  X(MemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool pool))                                       \
  X(MemPoolSetAttribute, "cuMemPoolSetAttribute", (CUmemoryPool pool, int attribute, void *value)) \
  X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                              \
    (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                     \
  X(MemFreeAsync, "cuMemFreeAsync", (CUdeviceptr address, CUstream stream))                        \
  X(MemcpyAsync, "cuMemcpyAsync",                                                                  \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                             \
  X(PointerGetAttributes, "cuPointerGetAttributes",                                                \
    (unsigned count, const int *attributes, void **values, CUdeviceptr address))                   \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                   \
  X(StreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, int *status))                      \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))

#define DRIVER_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
typedef struct driver {
  DRIVER_FUNCTIONS(DRIVER_MEMBER)
  int version;         /* such as 13000 for CUDA 13.0 */
  unsigned fork_depth; /* of the process that initialised it */
} driver;

/* Opens libcuda.so.1 once a process; the table lives to its end. FA_NO_DRIVER: there is none, it is
   the toolkit's stub, it is too old, or it has no device it can use. FA_UNSUPPORTED: this process
   was forked from one that had opened it. */
fa_status driver_open(const driver **out);

/* FA_OK, or this thread's message "what: the driver's words": FA_NO_MEMORY or FA_DRIVER. */
fa_status driver_check(const driver *cu, CUresult code, const char *what);

/* FA_UNSUPPORTED in a child forked after the driver was opened: nothing of it works there. */
fa_status driver_check_fork(const driver *cu);

#endif
