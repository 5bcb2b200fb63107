/* cuda_device.h: one opened GPU, for cuda_*.c only. */
#ifndef FAGEN_RUNTIME_CUDA_DEVICE_H
#define FAGEN_RUNTIME_CUDA_DEVICE_H

#include "context.h"
#include "cuda_build.h"
#include "driver.h"
#include "kernel.h"

typedef struct cuda_device {
  const driver *cu;
  CUcontext current; /* the driver's context */
  CUdevice ordinal;
  int retained;      /* whether `current` is the device's primary context, held by us */
  int arch;          /* of the specs that it runs */
  int shared_bytes;  /* the most a block can have */
  int has_pools;     /* whether memory can be taken in stream order */
  CUmemoryPool pool; /* of workspaces; NULL without has_pools */
  unsigned sm90;     /* bit of a pass: there are sm90 templates for it */
  cuda_tools tools;
} cuda_device;

/* A loaded entry. Its limit of dynamic shared memory was raised to the most there is when it was
   loaded, and is never set again. */
typedef struct cuda_function {
  char name[CUBIN_NAME];
  CUfunction function;
  int dynamic_limit;
} cuda_function;

typedef struct cuda_code {
  CUmodule module;
  cuda_function functions[CUBIN_ENTRIES];
  int num_functions;
} cuda_code;

/* Members of the backend. cuda_kernel.c: */
fa_status cuda_build(fa_kernel *kernel);
void cuda_unload(fa_kernel *kernel);
/* cuda_launch.c: */
fa_status cuda_run(const fa_kernel *kernel, const fa_plan *plan, struct CUstream_st *stream);

/* The driver's context of the device on this thread, and back: a thread finds its own again. */
fa_status cuda_enter(const fa_context *context, struct CUstream_st *stream, int *entered);
void cuda_leave(const fa_context *context, int entered);

#endif
