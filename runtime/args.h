/* args.h: a caller's fa_args, checked against a kernel, as the problem its plan takes. */
#ifndef FAGEN_RUNTIME_ARGS_H
#define FAGEN_RUNTIME_ARGS_H

#include "kernel.h"

/* Checks sizes and what selects the kernel; fills the problem's numbers, no tensors, no workspace.
   */
fa_status args_take_sizes(fa_problem *out, const fa_kernel *kernel, const fa_args *args);

/* Checks the tensors the kernel's pass reads and writes, and the parameters; completes the problem
   but for the workspace. */
fa_status args_take_tensors(fa_problem *problem, const fa_kernel *kernel, const fa_args *args);

#endif
