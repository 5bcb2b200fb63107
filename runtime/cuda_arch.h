/* cuda_arch.h: which kernels a compute capability runs. Pure: asks no driver. */
#ifndef FAGEN_RUNTIME_CUDA_ARCH_H
#define FAGEN_RUNTIME_CUDA_ARCH_H

#include "fagen.h"

/* The arch of the specs that a device runs: the highest that has a name, below its capability and
   in its major version. FA_UNSUPPORTED names the versions there are. */
fa_status cuda_arch_of(int *arch, int major, int minor);

/* Completes a canonical spec for a device: its target where that is open, and its arch where that
   is the default, which stands for the device's. sm90_present: whether there are sm90 templates for
   the spec's pass. FA_UNSUPPORTED, FA_INVALID. */
fa_status cuda_arch_resolve(fa_spec *spec, int device_arch, int sm90_present);

#endif
