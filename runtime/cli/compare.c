/* compare.c: norms and worst elements of an output. */
#include "compare.h"

#include "storage.h"

#include <math.h>
#include <string.h>

/* The distance of one element: 0 where both are the same infinity or NaN. */
static double distance(double got, double wanted) {
  if (got == wanted || (isnan(got) && isnan(wanted))) return 0;
  return isfinite(got) && isfinite(wanted) ? fabs(got - wanted) : INFINITY;
}

/* Takes one element into account; output->error holds the sum of squares meanwhile. */
static void compare_element(trial_output *output, int64_t index, const int64_t at[4]) {
  double error = distance(output->got[index], output->wanted[index]);
  if (isinf(error))
    ++output->bad;
  else
    output->error += error * error;
  if (error <= output->max_error) return;
  output->max_error = error;
  memcpy(output->max_at, at, sizeof output->max_at);
}

void compare_output(trial_output *output, const view *shape) {
  double squares = 0;
  int64_t at[4] = {0};
  output->reference_zero = 1;
  if (view_count(shape->extent) == 0) return;
  do {
    double wanted = output->wanted[view_index(shape, at)];
    if (isfinite(wanted)) squares += wanted * wanted;
    compare_element(output, view_index(shape, at), at);
  } while (view_next(at, shape->extent));
  output->reference_zero = squares == 0;
  output->error = squares == 0 ? output->max_error : sqrt(output->error / squares);
  if (squares > 0) output->rounding /= sqrt(squares);
}

double compare_rounding(const double *wanted, const double *change, const view *shape) {
  double squares = 0;
  for (int64_t i = 0; i < view_count(shape->extent); ++i) {
    double stored = storage_round(wanted[i] + (change ? change[i] : 0), shape->dtype);
    if (isfinite(stored)) squares += (stored - wanted[i]) * (stored - wanted[i]);
  }
  return sqrt(squares);
}
