/* drawn.h: the parameters of a problem: drawn within the ranges that their variants declare, or
   fixed by --param. */
#ifndef FAGEN_CLI_DRAWN_H
#define FAGEN_CLI_DRAWN_H

#include "buffer.h"
#include "gen/params.h"
#include "oracle.h"
#include "sizes.h"

typedef struct drawn_param {
  const variant_param *declared;
  char name[72]; /* "softcap.cap" */
  view shape;    /* of the values: f32 or i32, dense, indices as of tensors; a scalar has one */
  double *values;
} drawn_param;

typedef struct drawn_params {
  param_list declared;
  drawn_param items[PARAMS_MAX]; /* in slot order */
  int count;
  int ascending; /* whether the i32 tables are sorted, row by row */
} drawn_params;

/* Draws from sizes->seed: scalars, lengths of sized tables (odd: 2 R + 1) and values of tables,
   which are the same for any sizes around them; i32 tables ascend when the seed is even, as sorted
   document numbers do. What sizes->params names is fixed instead: a scalar, all elements of a
   table, or with VARIANT.SIZE the length of its tables. *out is yours: drawn_free, also after a
   failure. FA_INVALID: an unknown name, a length out of range, a range to draw from that is empty.
   */
fa_status drawn_make(drawn_params *out, const param_list *declared, const cli_sizes *sizes);
void drawn_free(drawn_params *drawn);

/* The parameters as the oracle reads them; `out` holds PARAMS_MAX. */
void drawn_for_oracle(oracle_param *out, const drawn_params *drawn);

/* "cap 12.5" or "slopes 8 values, 0.13 to 0.97", for people. */
void drawn_print(char *text, size_t bytes, const drawn_param *param);

/* As a launch takes them, of values in host memory; `out` holds PARAMS_MAX. Gives their number. */
size_t drawn_as_arguments(fa_param *out, const drawn_params *drawn);

/* What a variant declares: "f32 > 0, with a gradient; drawn from 5 to 50". */
void drawn_print_declared(char *text, size_t bytes, const variant_param *declared);

#endif
