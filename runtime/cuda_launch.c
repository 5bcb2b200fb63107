/* cuda_launch.c: the steps of a plan onto a stream. Everything that can be wrong is found before
   the first of them is enqueued; nothing is allocated, nothing waits. */
#include <string.h>

#include "cuda_device.h"
#include "error.h"

enum { MOST_GRID_YZ = 65535, MOST_GRID_X = 0x7fffffff };

/* A step made ready: the driver copies maps and arguments when it is launched. */
typedef struct ready_step {
  CUtensorMap maps[FA_PLAN_MAX_MAPS];
  const fa_step *step;
  const cuda_function *code;
} ready_step;

/* ---- Tensor maps ----------------------------------------------------------------------------- */

/* The driver's number for a size in bytes; -1 when it has none. */
typedef struct size_number {
  int bytes, number;
} size_number;

static int number_of(const size_number *table, int count, int bytes) {
  for (int i = 0; i < count; ++i)
    if (table[i].bytes == bytes) return table[i].number;
  return -1;
}

/* 16-bit elements are moved as they are, whichever float they hold; 4 and 8 bytes can also be
   summed. */
static const size_number element_types[] = {{1, CU_TENSOR_MAP_DATA_TYPE_UINT8},
                                            {2, CU_TENSOR_MAP_DATA_TYPE_UINT16},
                                            {4, CU_TENSOR_MAP_DATA_TYPE_FLOAT32},
                                            {8, CU_TENSOR_MAP_DATA_TYPE_FLOAT64}};
static const size_number swizzles[] = {{0, CU_TENSOR_MAP_SWIZZLE_NONE},
                                       {32, CU_TENSOR_MAP_SWIZZLE_32B},
                                       {64, CU_TENSOR_MAP_SWIZZLE_64B},
                                       {128, CU_TENSOR_MAP_SWIZZLE_128B}};
static const size_number promotions[] = {{0, CU_TENSOR_MAP_L2_PROMOTION_NONE},
                                         {64, CU_TENSOR_MAP_L2_PROMOTION_L2_64B},
                                         {128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B},
                                         {256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B}};

static fa_status encode_map(CUtensorMap *out, const fa_plan_map *map, const driver *cu,
                            const char *what) {
  static const unsigned every_element[] = {1, 1, 1, 1, 1};
  int type = number_of(element_types, 4, map->element_bytes);
  int swizzle = number_of(swizzles, 4, map->swizzle_bytes);
  int promotion = number_of(promotions, 4, map->l2_promotion_bytes);
  if (type < 0 || swizzle < 0 || promotion < 0)
    return fail(FA_TEMPLATE, "%s: a tensor map of %d-byte elements, swizzle %d, L2 promotion %d",
                what, map->element_bytes, map->swizzle_bytes, map->l2_promotion_bytes);
  CUresult code = cu->TensorMapEncodeTiled(out, type, (unsigned)map->rank, map->base, map->extent,
                                           map->stride_bytes, map->box, every_element,
                                           CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return code ? driver_check(cu, code, what) : FA_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static const cuda_function *find_function(const cuda_code *code, const char *name) {
  for (int i = 0; i < code->num_functions; ++i)
    if (!strcmp(code->functions[i].name, name)) return &code->functions[i];
  return NULL;
}

static int is_empty(const fa_step *step) {
  return !step->grid[0] || !step->grid[1] || !step->grid[2];
}

static fa_status check_step(const ready_step *ready) {
  const fa_step *step = ready->step;
  if (!ready->code)
    return fail(FA_TEMPLATE, "%s: the plan names an entry the kernel lacks", step->entry);
  if (step->grid[0] > MOST_GRID_X || step->grid[1] > MOST_GRID_YZ || step->grid[2] > MOST_GRID_YZ)
    return fail(FA_UNSUPPORTED, "%s: a grid of %u x %u x %u; a GPU takes at most %d x %d x %d",
                step->entry, step->grid[0], step->grid[1], step->grid[2], MOST_GRID_X, MOST_GRID_YZ,
                MOST_GRID_YZ);
  if (step->shared_bytes > (unsigned)ready->code->dynamic_limit)
    return fail(FA_UNSUPPORTED, "%s: %u bytes of dynamic shared memory a block; this device has %d",
                step->entry, step->shared_bytes, ready->code->dynamic_limit);
  if (step->num_maps < 0 || step->num_maps > FA_PLAN_MAX_MAPS ||
      step->arg_bytes > sizeof step->args)
    return fail(FA_TEMPLATE, "%s: %d tensor maps and %u bytes of arguments; at most %d and %zu",
                step->entry, step->num_maps, step->arg_bytes, FA_PLAN_MAX_MAPS, sizeof step->args);
  return FA_OK;
}

static fa_status prepare(ready_step *out, const fa_step *step, const fa_kernel *kernel) {
  const cuda_device *device = kernel->context->device;
  out->step = step;
  out->code = find_function(kernel->device_code, step->entry);
  fa_status status = check_step(out);
  for (int i = 0; !status && i < step->num_maps; ++i)
    status = encode_map(&out->maps[i], &step->maps[i], device->cu, step->entry);
  return status;
}

static void add_attribute(CUlaunchConfig *to, int id, CUlaunchAttributeValue value) {
  CUlaunchAttribute *attribute = &to->attrs[to->numAttrs++];
  attribute->id = id;
  attribute->value = value;
}

static fa_status launch_step(ready_step *ready, const driver *cu, struct CUstream_st *stream) {
  const fa_step *step = ready->step;
  CUlaunchAttribute attributes[3];
  CUlaunchConfig config = {.gridDimX = step->grid[0],
                           .gridDimY = step->grid[1],
                           .gridDimZ = step->grid[2],
                           .blockDimX = step->block[0],
                           .blockDimY = step->block[1],
                           .blockDimZ = step->block[2],
                           .sharedMemBytes = step->shared_bytes,
                           .hStream = stream,
                           .attrs = attributes};
  if (step->cluster[0])
    add_attribute(&config, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                  (CUlaunchAttributeValue){
                      .clusterDim = {step->cluster[0], step->cluster[1], step->cluster[2]}});
  if (step->programmatic)
    add_attribute(&config, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                  (CUlaunchAttributeValue){.programmaticStreamSerializationAllowed = 1});
  if (step->cooperative)
    add_attribute(&config, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                  (CUlaunchAttributeValue){.cooperative = 1});
  void *parameters[FA_PLAN_MAX_MAPS + 1];
  for (int i = 0; i < step->num_maps; ++i) parameters[i] = &ready->maps[i];
  parameters[step->num_maps] = (void *)step->args;
  CUresult code = cu->LaunchKernelEx(&config, ready->code->function, parameters, NULL);
  return code ? driver_check(cu, code, step->entry) : FA_OK;
}

fa_status cuda_run(const fa_kernel *kernel, const fa_plan *plan, struct CUstream_st *stream) {
  const cuda_device *device = kernel->context->device;
  ready_step ready[FA_PLAN_MAX_STEPS];
  int count = 0;
  fa_status status = FA_OK;
  for (int i = 0; !status && i < plan->num_steps; ++i)
    if (!is_empty(&plan->steps[i])) status = prepare(&ready[count++], &plan->steps[i], kernel);
  for (int i = 0; !status && i < count; ++i) status = launch_step(&ready[i], device->cu, stream);
  return status;
}
