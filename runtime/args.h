/* args.h: a caller's fa_args, checked against a kernel, as the problem its plan takes. */
#ifndef FAGEN_RUNTIME_ARGS_H
#define FAGEN_RUNTIME_ARGS_H

#include "kernel.h"

/* Checks sizes, what selects the kernel, and the parameters there are; fills the problem's numbers
   and parameters, no tensors, no workspace. params, of PARAMS_MAX, must last as long as *out. */
fa_status args_take_sizes(fa_problem *out, fa_plan_param *params, const fa_kernel *kernel,
                          const fa_args *args);

/* Checks the tensors the kernel's pass reads and writes, and that all parameters are there;
   completes the problem but for the workspace. */
fa_status args_take_tensors(fa_problem *problem, const fa_kernel *kernel, const fa_args *args);

#endif
