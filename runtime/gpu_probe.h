/* gpu_probe.h: what is missing for the CUDA backend on this machine. */
#ifndef FAGEN_RUNTIME_GPU_PROBE_H
#define FAGEN_RUNTIME_GPU_PROBE_H

#include "fagen.h"

/* Why no CUDA context can be made: FA_NO_DRIVER, FA_NO_NVRTC, or FA_UNSUPPORTED when both are
   there, since this version emits no GPU kernels. nvrtc is a path or NULL. */
fa_status gpu_probe(const char *nvrtc);

#endif
