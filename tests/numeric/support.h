/* support.h: what the numeric tests share: assertions that print values, inputs in closed form, one
   context, trials that must come out right. All of it on the target of target.h. */
#ifndef FAGEN_TESTS_NUMERIC_SUPPORT_H
#define FAGEN_TESTS_NUMERIC_SUPPORT_H

#include "gen/error.h" /* before cmocka.h, which has a macro of the name `fail` */

#include "../support/expect.h"
#include "fagen.h"
#include "runtime/cli/trial.h"
#include "target.h"

/* The overlay folder with the throw-away variants `ahead` (k - q <= 5) and `twice` (2 s). */
const char *support_overlay(void);

/* ---- Values ------------------------------------------------------------------------------ */

/* Fails with both values unless |got - wanted| <= tolerance, or both are the same infinity. */
void assert_near(const char *what, double got, double wanted, double tolerance);

/* Inputs for closed-form answers: ((7 h + 5 i + 3 d + c) mod 11 - 5) / 8 with c = 0, 2, 6, 4 for
   q, k, v and dO; 0 for dLSE. A trial_fill. */
double closed_form(const void *with, trial_tensor tensor, const int64_t at[4]);

/* The sum of (index + 1) * value over [head][row][column] of batch entry 0; -inf counts as 0. */
double checksum(const double *values, const int64_t extent[4], const int64_t stride[4]);

/* ---- Trials ------------------------------------------------------------------------------ */

/* The context of this test program, of the target: two threads on cpu, support_overlay. */
fa_context *support_context(void);

/* A new one like it, with this many threads on cpu. */
fa_context *support_new_context(int threads);

/* A cmocka group setup: a program that hangs is ended by a signal, and one whose target needs a GPU
   where there is none ends with exit code 77 and the line "SKIP name: reason". */
int support_begin(void **state);

/* A cmocka group teardown: prints the largest errors seen and frees the context. */
int support_end(void **state);

/* A poisoned trial of target_words(words) ("bwd cpu f32 d64 gqa2"); heads are query heads. */
trial_options trial_of(const char *words, int64_t batch, int64_t heads, int64_t seqlen_q,
                       int64_t seqlen_k);

/* Runs the trial; fails the test when it cannot run, skips it where the target has no such kernel.
   Free with trial_free. */
void run_trial(trial_result *out, const trial_options *options);
void run_trial_on(trial_result *out, fa_context *context, const trial_options *options);

/* Fails, naming the case and the worst element, unless every output is within its limit and no
   memory around the tensors was touched. */
void assert_result_right(const trial_options *options, const trial_result *result);

/* run_trial, assert_result_right, trial_free; of forward alone where the target has no backward. */
void assert_trial_right(const trial_options *options);

/* The output of a result; fails when there is none. */
const trial_output *output_of(const trial_result *result, trial_tensor tensor);

/* One value that the kernel wrote. */
double got_at(const trial_result *result, trial_tensor tensor, int64_t batch, int64_t row,
              int64_t head, int64_t column);

/* Whether a tensor has the same bits in each run: a GPU adds up dQ in any order, and sm90 dK and dV of
   a group, unless the spec says `det`. */
int is_repeatable(int target, int deterministic, int grouped, trial_tensor tensor);

/* Fails unless |got - wanted| is within what the order of a sum in f32 may cost, rounded to the
   dtype; scale is the tensor's largest element. */
void assert_same_sum(trial_tensor tensor, double got, double wanted, double scale, int dtype);

/* Whether both results have the same bits in one output, and fails unless in all; those that are
   not repeatable are the same sums. */
int same_bits(const trial_result *a, const trial_result *b, trial_tensor tensor);
void assert_same_bits(const trial_result *a, const trial_result *b);

#endif
