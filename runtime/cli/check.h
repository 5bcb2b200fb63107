/* check.h: `fagen check`: a kernel against the float64 reference, with the limits that decide. */
#ifndef FAGEN_CLI_CHECK_H
#define FAGEN_CLI_CHECK_H

#include "fagen.h"
#include "sizes.h"
#include "trial.h"

#include <stdio.h>

/* Runs one spec on random inputs and prints error, limit and verdict of every output to `out`. A
   target that the spec names is the one that runs. Parameters of variants are drawn in their
   declared ranges or taken from sizes->params (see drawn.h), and printed. Gives the exit code: 0
   right, 1 wrong result or failed build, 2 bad input, 3 cannot run here.

   What decides is float64 arithmetic on the variants' expressions, pair by pair. Trusted is that an
   expression was read as its file says: it is the generator's Lua that reads it. Not trusted are
   the text, derivatives and tile classes that the generator made of it, and causal, which is known
   here without its file. */
int cli_check(const fa_spec *spec, const cli_sizes *sizes, FILE *out);

/* The documented limit of an output: relative Frobenius, or the largest element's where the
   reference is exactly 0. */
double check_limit(int dtype, trial_tensor tensor);

/* The limit that holds for this result: the documented one, or 1.25 times what rounding alone costs
   where that is more; up to 4.25 times for a single element, whose noise is drawn once. It is where
   hardly any values are averaged over, where they cancel, or where a score has large terms that f32
   rounds.

   Gradients by parameters have the limits of the other gradients, for they are sums of the same dS,
   but they cancel as a rule and not by accident: dS sums to 0 over a row, so a bias that is the
   same for all keys of a row has a gradient of 0 that no f32 sum finds. Rounding costs such a sum,
   of every pair, P |dscore/dparameter| times two f32 epsilons of |dO||V| and of |dP - D| times the
   size of the exponent that P is made of: of any sign from pair to pair; and as much of |dO||O|,
   which is D's, of one sign for all pairs of a row. To that comes what the rounded O and LSE that
   backward was handed do to D and P. A gradient that leaves out one pair of a thousand errs by
   whole terms, not by an epsilon of each, and is seen. */
double check_output_limit(const trial_output *output, int dtype);

/* Whether an output is within its limit and every value that should be finite is. */
int check_output_right(const trial_output *output, int dtype);

#endif
