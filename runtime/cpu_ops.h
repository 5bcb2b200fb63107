/* cpu_ops.h: the arithmetic that emitted cpu kernels call, for the processor that is present. */
#ifndef FAGEN_RUNTIME_CPU_OPS_H
#define FAGEN_RUNTIME_CPU_OPS_H

#include "templates/cpu/abi.h"

/* The fastest primitives that this processor can run. *name (may be NULL) receives "baseline",
   "avx2" or "avx512". Both are static. */
const fa_cpu_ops *cpu_ops_best(const char **name);

/* The primitives of that name; NULL when there are none, or the processor lacks their instructions.
 */
const fa_cpu_ops *cpu_ops_named(const char *name);

#endif
