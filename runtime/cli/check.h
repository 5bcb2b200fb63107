/* check.h: `fagen check`: a kernel against the float64 reference, with the limits that decide. */
#ifndef FAGEN_CLI_CHECK_H
#define FAGEN_CLI_CHECK_H

#include "fagen.h"
#include "sizes.h"
#include "trial.h"

#include <stdio.h>

/* Runs one spec on random inputs and prints error, limit and verdict of every output to `out`. A
   target that the spec names is the one that runs. Gives the exit code: 0 right, 1 wrong result or
   failed build, 2 bad input, 3 cannot run here. */
int cli_check(const fa_spec *spec, const cli_sizes *sizes, FILE *out);

/* The documented limit of an output: relative Frobenius, or the largest element's where the
   reference is exactly 0. */
double check_limit(int dtype, trial_tensor tensor);

/* The limit that holds for this result: the documented one, or 1.25 times what rounding alone costs
   where that is more. It is where hardly any values are averaged over, or where they cancel. */
double check_output_limit(const trial_output *output, int dtype);

/* Whether an output is within its limit and every value that should be finite is. */
int check_output_right(const trial_output *output, int dtype);

#endif
