/* parameters.h: a caller's variant parameters, checked against those of a kernel. */
#ifndef FAGEN_RUNTIME_PARAMETERS_H
#define FAGEN_RUNTIME_PARAMETERS_H

#include "kernel.h"

/* Fills `out`, of PARAMS_MAX, in slot order from what the caller gave, 0 where a parameter is missing.
   FA_INVALID names one that is foreign, given twice, out of its range or of a wrong length. */
fa_status parameters_take(fa_plan_param *out, const fa_kernel *kernel, const fa_args *args);

/* Whether all are there: FA_INVALID names the one that is missing, or whose data are. */
fa_status parameters_complete(const fa_kernel *kernel, const fa_args *args);

/* "variant.name" of a slot: for a message that is made at once. Static, until the thread's next call. */
const char *parameters_name(const fa_kernel *kernel, int slot);

#endif
