/* device.h: what tests on a GPU need of the driver beside the library: streams, graphs, memory of
   other kinds. */
#ifndef FAGEN_TESTS_GPU_DEVICE_H
#define FAGEN_TESTS_GPU_DEVICE_H

#include "runtime/driver.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

#define DEVICE_FUNCTIONS(X)                                                              \
  X(CtxCreate, "cuCtxCreate_v2", (CUcontext * context, unsigned flags, CUdevice device)) \
  X(CtxDestroy, "cuCtxDestroy_v2", (CUcontext context))                                  \
  X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                               \
  X(CtxSynchronize, "cuCtxSynchronize", (void))                                          \
  X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                 \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                              \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))          \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))          \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                     \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                       \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                   \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                          \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                                     \
  X(MemsetD8Async, "cuMemsetD8Async",                                                    \
    (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))                \
  X(MemsetD16Async, "cuMemsetD16Async",                                                  \
    (CUdeviceptr to, unsigned short value, size_t count, CUstream stream))               \
  X(MemHostAlloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))       \
  X(MemFreeHost, "cuMemFreeHost", (void *memory))                                        \
  X(MemAllocManaged, "cuMemAllocManaged", (CUdeviceptr * address, size_t bytes, unsigned flags))

enum { CU_STREAM_NON_BLOCKING = 1, CU_STREAM_CAPTURE_MODE_GLOBAL = 0, CU_MEM_ATTACH_GLOBAL = 1 };

#define DEVICE_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
typedef struct device_functions {
  DEVICE_FUNCTIONS(DEVICE_MEMBER)
} device_functions;

/* Opens them; 0 when there is no driver. */
int device_open(device_functions *out);

/* Fails the test, with the call's text, unless it gives 0. */
#define expect_cu(call) expect_cu_at(call, #call, __FILE__, __LINE__)
void expect_cu_at(CUresult got, const char *call, const char *file, int line);

#endif
