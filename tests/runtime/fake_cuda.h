/* fake_cuda.h: a library with the name and the functions of the CUDA driver, that runs nothing and
   records everything, so that the runtime's use of the driver is tested on any machine. */
#ifndef FAGEN_TESTS_RUNTIME_FAKE_CUDA_H
#define FAGEN_TESTS_RUNTIME_FAKE_CUDA_H

#include "runtime/driver.h"

enum { FAKE_DEVICES = 3, FAKE_LAUNCHES = 32, FAKE_MEMORIES = 64, FAKE_PARAMETERS = 4 };

typedef struct fake_device {
  int major, minor, processors, l2_bytes, shared_bytes, pools;
} fake_device;

struct CUctx_st {
  int device, holders;
};

struct CUstream_st {
  int capturing;
};

typedef struct fake_launch {
  char entry[320];
  CUlaunchConfig config;
  CUlaunchAttribute attributes[4];
  CUcontext current;
  const void *parameters[FAKE_PARAMETERS]; /* addresses, dead after the launch */
  unsigned char arguments[512];            /* what the last parameter pointed to */
} fake_launch;

/* Memory that a pointer query knows. */
typedef struct fake_memory {
  char *begin;
  size_t bytes;
  int type, device, managed;
  CUcontext owner;
} fake_memory;

typedef struct fake_cuda {
  /* What the driver says; set by the test. */
  int init_result, init_ms, version, device_count;
  fake_device devices[FAKE_DEVICES];
  int module_result;                  /* of cuModuleLoadData */
  int memory_result;                  /* of every allocation */
  int num_parameters, argument_bytes; /* what a launch's parameters are to be read as */
  int is_quiet;                       /* launches are not recorded, and wait for nothing */

  /* What it was asked; read by the test. */
  int module_loads, module_unloads, limits_set, allocations, frees, synchronisations, tensor_maps;
  int loads_under_strict_capture;
  struct CUstream_st *workspace_from, *workspace_to; /* streams of the last cuMem...Async */
  void *workspace;
  int pools; /* created and not destroyed */
  int workspaces_taken, workspaces_given, launches_at_give;
  fake_launch launches[FAKE_LAUNCHES];
  int num_launches;
  const void *map_out; /* of the last tensor map */
  unsigned long long map_extent[5], map_stride[4];
  int map_type, map_swizzle, map_promotion;

  struct CUctx_st primary[FAKE_DEVICES];
  fake_memory memories[FAKE_MEMORIES];
  int num_memories;
} fake_cuda;

extern fake_cuda fake;

/* A driver of CUDA 13.0 with devices of capability 9.0, 8.6 and 8.0, nothing recorded, no context
   current. */
void fake_reset(void);

/* Makes a context the thread's current one, without a call of the driver being counted. */
void fake_make_current(CUcontext context);
CUcontext fake_current(void);

/* The thread's, as cuThreadExchangeStreamCaptureMode left it; 0 after fake_reset. */
int fake_capture_mode(void);

/* Declares memory. */
void fake_add_memory(void *begin, size_t bytes, int type, int device, CUcontext owner, int managed);

#endif
