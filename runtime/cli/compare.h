/* compare.h: how far an output is from the reference. */
#ifndef FAGEN_CLI_COMPARE_H
#define FAGEN_CLI_COMPARE_H

#include "buffer.h"
#include "trial.h"

/* Fills the measures of an output whose got and wanted are set; rounding comes in absolute and
   leaves in the terms of error. */
void compare_output(trial_output *output, const view *shape);

/* The Frobenius norm of what rounding to the shape's dtype does to values that are off by `change`
   already; change NULL = 0. */
double compare_rounding(const double *wanted, const double *change, const view *shape);

#endif
