/* gpu_build.h: GPU kernels without a GPU: what building takes, and their launch plans on a device
   that need not be here. */
#ifndef FAGEN_CLI_GPU_BUILD_H
#define FAGEN_CLI_GPU_BUILD_H

#include "fagen.h"
#include "runtime/cuda_build.h"
#include "runtime/kernel.h"
#include "sizes.h"

/* What the environment names: the overlay, NVRTC, and the disk cache unless it is not wanted.
   gpu_tools_close when done. */
cuda_tools gpu_tools_open(int use_cache);
void gpu_tools_close(cuda_tools *tools);

/* A launch plan, compiled. What a plan's steps point to lives as long. */
typedef struct gpu_plan {
  fa_context device; /* its multiprocessors and its L2, and nothing else */
  fa_kernel kernel;  /* its plan, and nothing that runs */
} gpu_plan;

/* From the text of NAME_launch.c. Stays where it is: do not copy *out. FA_COMPILE, FA_UNSUPPORTED,
   FA_NO_MEMORY. */
fa_status gpu_plan_compile(gpu_plan *out, const fa_spec *spec, const char *launch_source,
                           int processors, long long l2_bytes);
void gpu_plan_free(gpu_plan *plan);

/* The dynamic shared memory of each entry of the binary, -1 where no usual problem launches it.
   FA_COMPILE: the plan launches an entry that the binary lacks. */
fa_status gpu_plan_dynamic_shared(int bytes[CUBIN_ENTRIES], const gpu_plan *plan,
                                  const cubin *binary);

/* The arguments of a problem without its tensors and parameters, as kernel_plan takes them. */
fa_args sizes_as_args(const cli_sizes *sizes);

#endif
