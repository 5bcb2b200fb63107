% -- The few wrappers that a preprocess alone needs.
#define DEVICE __device__ __forceinline__

% include "gpu_arithmetic.cu.lua"

/* Lets the next launch of the stream begin, as far as it does not wait for this one. */
DEVICE void launch_next() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }
