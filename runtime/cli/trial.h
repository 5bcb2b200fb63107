/* trial.h: one spec, one problem: the kernel through the public API beside the float64 reference.
 *
 * A backward trial runs the forward kernel first and gives its O and LSE to the backward kernel;
 * the reference computes its own. Inputs are rounded to the dtype before either side sees them.
 * Every tensor stands between guard bands, and all bytes that are no element of an output are
 * compared afterwards with what they were. */
#ifndef FAGEN_CLI_TRIAL_H
#define FAGEN_CLI_TRIAL_H

#include "fagen.h"
#include "gen/params.h"
#include "sizes.h"

typedef enum trial_tensor {
  TRIAL_Q,
  TRIAL_K,
  TRIAL_V,
  TRIAL_DOUT,
  TRIAL_DLSE,
  TRIAL_O,
  TRIAL_LSE,
  TRIAL_DQ,
  TRIAL_DK,
  TRIAL_DV,
  TRIAL_D, /* what a `pre` kernel leaves at the start of the workspace */
  TRIAL_TENSORS,
  TRIAL_PARAM = TRIAL_TENSORS /* the gradient by a parameter of a variant */
} trial_tensor;

/* "O", "dQ", ...; not of TRIAL_PARAM. */
const char *trial_tensor_name(trial_tensor tensor);

typedef enum trial_layout {
  TRIAL_BSHD,   /* batch x seqlen x heads x dim */
  TRIAL_BHSD,   /* batch x heads x seqlen x dim */
  TRIAL_PACKED, /* q, k and v are columns of one tensor, and so are their gradients */
  TRIAL_WIDE,   /* gaps between heads, rows and batch entries, of sizes that share no factor */
  TRIAL_LAYOUTS
} trial_layout;

/* The value of an element; at is batch, row, head, column. Rounded to the dtype afterwards. */
typedef double (*trial_fill)(const void *with, trial_tensor tensor, const int64_t at[4]);

typedef struct trial_options {
  fa_spec spec;
  const char *overlay; /* the context's template_dir, for the oracle; NULL = FA_TEMPLATE_DIR */
  cli_sizes sizes;
  trial_layout layout;
  int poison;                  /* memory that the kernel must not read holds NaN, else 0 */
  int with_dlse;               /* backward and pre: a gradient into LSE as well */
  int without_param_gradients; /* backward is not asked for them */
  trial_fill fill;             /* NULL: normal draws from sizes.seed */
  const void *fill_with;
  void (*progress)(void *to, double done); /* of each pass of the reference; may be NULL */
  void *progress_to;
} trial_options;

/* One output: the values of both sides without gaps, and how far apart they are. */
typedef struct trial_output {
  trial_tensor tensor;
  char name[80];     /* "O", "dQ", ... "d softcap.cap" */
  int64_t extent[4]; /* batch, row, head, column; LSE and D have one column; of a gradient by a
                        parameter 1 where it has no such index, a column being the table's */
  int64_t stride[4]; /* of got and wanted */
  double *got, *wanted;
  double error;       /* relative Frobenius; the largest element's where the reference is all 0 */
  int reference_zero; /* whether the reference is all 0 */
  double rounding; /* what rounding alone costs, in the terms of error: of this output and of O */
  double max_error;
  int64_t max_at[4];
  int64_t bad; /* values that are NaN or infinite where the reference is not, or the reverse */
} trial_output;

typedef struct trial_result {
  char name[FA_NAME_MAX]; /* of the kernel's function */
  int target;             /* fa_target that ran */
  double softmax_scale;
  trial_output outputs[5 + PARAMS_MAX];
  int num_outputs;
  char damaged[80];  /* the buffer whose surroundings were written to; "" = none */
  char params[1024]; /* the parameters and their values, for people; "" = none */
} trial_result;

/* Runs one trial. *out is yours: trial_free, also after a failure. Gives the status of the library
   call that failed; FA_INVALID for sizes that are none. */
fa_status trial_run(trial_result *out, fa_context *context, const trial_options *options);
void trial_free(trial_result *result);

/* Where an element stands in got and wanted. */
int64_t trial_index(const trial_output *output, int64_t batch, int64_t row, int64_t head,
                    int64_t column);

#endif
