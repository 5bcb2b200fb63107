/* target.h: what a numeric test runs on: the FAGEN_TEST_TARGET of the environment, cpu when unset,
   else sm80 or sm90. Tests say `cpu` in their words, and `f32` where a known answer is wanted to
   many digits: a GPU, which has no f32, takes f16 there and a tolerance of its own. */
#ifndef FAGEN_TESTS_NUMERIC_TARGET_H
#define FAGEN_TESTS_NUMERIC_TARGET_H

#include "../support/expect.h"
#include "fagen.h"

/* The fa_target. Ends the program when the variable holds anything else. */
int target_of_tests(void);
int on_gpu(void);

/* The words of a spec, or a kernel's name, with the target of the tests in place of `cpu`, and on a
   GPU `f16` in place of `f32`. A name gets the architecture that sm80 is compiled for. */
void target_words(char out[FA_NAME_MAX], const char *words);
void target_name(char out[FA_NAME_MAX], const char *name, int arch);

/* Whether cases of this dtype are to be run; says once that f32 is left out. For loops over dtypes,
   which have f16 anyway. */
int target_has(const char *dtype);

double on_target(double on_cpu, double on_the_gpu);

/* Skips the test on a GPU, with the reason. */
void cpu_only(const char *reason);

#endif
