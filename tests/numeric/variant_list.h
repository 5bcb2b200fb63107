/* variant_list.h: every variant there is, of the templates and of the tests' overlay, alone and in
   pairs, so that tests need not name any. */
#ifndef FAGEN_TESTS_NUMERIC_VARIANT_LIST_H
#define FAGEN_TESTS_NUMERIC_VARIANT_LIST_H

#include "gen/params.h"
#include "runtime/cli/trial.h"

#include <stddef.h>

enum { VARIANTS_LISTED_MAX = 64 };

/* What of S a variant changes. */
typedef struct listed_variant {
  char name[32];
  int keeps, scores, sinks; /* whether it has such an expression */
  param_list params;
} listed_variant;

/* Reads the list; causal, which is a word of its own, is not in it. Fails the test when a variant
   does not load or there are less than the tests' own. Gives their number. */
size_t variant_list(listed_variant out[VARIANTS_LISTED_MAX]);

/* "bwd cpu f32 d40 gqa2 WORDS" with sizes, layout, parameters and inputs that `number` decides. */
trial_options variant_case(unsigned number, const char *dtype, const char *words);

#endif
