/* calls.h: every call that takes fa_args, on one problem, so that a case of bad input is put to all
   that must refuse it. */
#ifndef FAGEN_TESTS_API_CALLS_H
#define FAGEN_TESTS_API_CALLS_H

#include "problem.h"

/* Sets of calls. */
enum {
  FORWARD = 1,
  BACKWARD = 2,
  LAUNCH_FWD = 4,
  LAUNCH_PRE = 8,
  LAUNCH_BWD = 16,
  SIZE_FWD = 32,
  SIZE_PRE = 64,
  SIZE_BWD = 128,
  ONE_CALL = FORWARD | BACKWARD,
  LAUNCH = LAUNCH_FWD | LAUNCH_PRE | LAUNCH_BWD,
  SIZE = SIZE_FWD | SIZE_PRE | SIZE_BWD,
  WITH_KERNEL = LAUNCH | SIZE,
  ALL = ONE_CALL | LAUNCH | SIZE,
  RUN = ONE_CALL | LAUNCH,
  RUN_FWD = FORWARD | LAUNCH_FWD,
  RUN_BWD = BACKWARD | LAUNCH_BWD
};

/* Made by calls_begin, a cmocka group setup; the kernels are those of the problem, by pass. */
extern problem memory;
extern fa_context *context;
extern const fa_kernel *kernels[FA_BWD + 1];
int calls_begin(void **state);
int calls_end(void **state);

/* A cmocka test setup: the problem as problem_fill leaves it. */
int calls_fresh(void **state);

/* Arguments that every call accepts. */
fa_args good_args(void);

/* Makes one call. */
fa_status make_call(int call, const fa_args *args);

/* Makes each call of the set, which must all refuse and touch nothing. words: see expect.h. */
void assert_all_refuse(int calls, const fa_args *args, fa_status wanted, const char *words);

/* Fails when a byte of the problem has changed since calls_fresh. */
void assert_untouched(const char *what);

#endif
