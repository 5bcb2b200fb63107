/* driver_values.h: every number of the driver's interface that the runtime declares for itself, by
   name. Included twice: after runtime/driver.h, and after the toolkit's cuda.h. */
#define VALUE(x) \
  { #x, (long long)(x) }
#define FIELD(type, field) \
  { #type "." #field, (long long)offsetof(type, field) }
#define VALUES                                                                                     \
  VALUE(CUDA_ERROR_OUT_OF_MEMORY), VALUE(CUDA_ERROR_STUB_LIBRARY),                                 \
      VALUE(CUDA_ERROR_INVALID_IMAGE), VALUE(CUDA_ERROR_NO_BINARY_FOR_GPU),                        \
      VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), VALUE(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),   \
      VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),                                         \
      VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),                                         \
      VALUE(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),                                \
      VALUE(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),                                           \
      VALUE(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),                                                  \
      VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), VALUE(CU_POINTER_ATTRIBUTE_CONTEXT), \
      VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE), VALUE(CU_POINTER_ATTRIBUTE_IS_MANAGED),             \
      VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), VALUE(CU_MEMORYTYPE_DEVICE),                     \
      VALUE(CU_MEM_ALLOCATION_TYPE_PINNED), VALUE(CU_MEM_LOCATION_TYPE_DEVICE),                    \
      VALUE(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), VALUE(sizeof(CUmemPoolProps)),                     \
      FIELD(CUmemPoolProps, location.type), FIELD(CUmemPoolProps, location.id),                    \
      FIELD(CUmemPoolProps, maxSize), FIELD(CUmemPoolProps, usage),                                \
      VALUE(CU_STREAM_CAPTURE_STATUS_NONE), VALUE(CU_STREAM_CAPTURE_MODE_RELAXED),                 \
      VALUE(CU_LAUNCH_ATTRIBUTE_COOPERATIVE), VALUE(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION),        \
      VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),                                \
      VALUE(CU_TENSOR_MAP_DATA_TYPE_UINT8), VALUE(CU_TENSOR_MAP_DATA_TYPE_UINT16),                 \
      VALUE(CU_TENSOR_MAP_DATA_TYPE_FLOAT32), VALUE(CU_TENSOR_MAP_DATA_TYPE_FLOAT64),              \
      VALUE(CU_TENSOR_MAP_INTERLEAVE_NONE), VALUE(CU_TENSOR_MAP_SWIZZLE_NONE),                     \
      VALUE(CU_TENSOR_MAP_SWIZZLE_32B), VALUE(CU_TENSOR_MAP_SWIZZLE_64B),                          \
      VALUE(CU_TENSOR_MAP_SWIZZLE_128B), VALUE(CU_TENSOR_MAP_L2_PROMOTION_NONE),                   \
      VALUE(CU_TENSOR_MAP_L2_PROMOTION_L2_64B), VALUE(CU_TENSOR_MAP_L2_PROMOTION_L2_128B),         \
      VALUE(CU_TENSOR_MAP_L2_PROMOTION_L2_256B), VALUE(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),         \
      VALUE(sizeof(CUdevice)), VALUE(sizeof(CUdeviceptr)), VALUE(sizeof(CUresult)),                \
      VALUE(sizeof(CUlaunchAttributeValue)), VALUE(sizeof(CUlaunchAttribute)),                     \
      FIELD(CUlaunchAttribute, id), FIELD(CUlaunchAttribute, value),                               \
      FIELD(CUlaunchAttributeValue, cooperative), FIELD(CUlaunchAttributeValue, clusterDim.y),     \
      FIELD(CUlaunchAttributeValue, clusterDim.z),                                                 \
      FIELD(CUlaunchAttributeValue, programmaticStreamSerializationAllowed),                       \
      VALUE(sizeof(CUlaunchConfig)), FIELD(CUlaunchConfig, gridDimZ),                              \
      FIELD(CUlaunchConfig, blockDimX), FIELD(CUlaunchConfig, sharedMemBytes),                     \
      FIELD(CUlaunchConfig, hStream), FIELD(CUlaunchConfig, attrs),                                \
      FIELD(CUlaunchConfig, numAttrs), VALUE(sizeof(CUtensorMap)), VALUE(_Alignof(CUtensorMap))

typedef struct driver_value {
  const char *name;
  long long value;
} driver_value;

extern const driver_value driver_values_ours[], driver_values_toolkits[];
extern const int driver_values_count;
