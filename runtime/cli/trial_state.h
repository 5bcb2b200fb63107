/* trial_state.h: a trial under way, and the parts of its course that have files of their own. */
#ifndef FAGEN_CLI_TRIAL_STATE_H
#define FAGEN_CLI_TRIAL_STATE_H

#include "buffer.h"
#include "drawn.h"
#include "layout.h"
#include "oracle.h"
#include "trial.h"

/* A parameter on the device, and the gradients by it; NULL and no buffer where there is none. */
typedef struct param_memory {
  buffer table, gradient;
  double *got, *wanted;
  double *noise; /* the square of what f32 loses, of each element */
  double rounding;
} param_memory;

typedef struct trial {
  fa_context *context;
  const trial_options *options;
  fa_spec spec; /* canonical */
  double softmax_scale;
  int pass, fill;
  const fa_kernel *forward, *kernel; /* kernel: NULL in a forward trial */
  view dense[TRIAL_TENSORS];         /* shapes of `values` */
  double *values[TRIAL_TENSORS];     /* inputs as given, outputs as found */
  double *wanted[TRIAL_TENSORS];
  double rounding[TRIAL_TENSORS];
  placement places[TRIAL_TENSORS];
  buffer buffers[TRIAL_TENSORS];
  buffer workspaces[2]; /* of forward and kernel */
  drawn_params drawn;
  param_memory params[PARAMS_MAX]; /* of drawn, by slot */
  oracle *oracle;
  const char *damaged;
} trial;

/* Whether the trial asks for the gradient by this parameter. */
int trial_has_gradient(const trial *t, int slot);

/* The course, in this order. */
fa_status trial_params_create(trial *t);
void trial_params_set(fa_param *out, const trial *t, int pass); /* as many as drawn.count */
fa_status trial_params_collect(trial *t);
fa_status trial_reference(trial *t); /* sets wanted and rounding of every output */
void trial_params_report(trial_result *out, trial *t);
void trial_params_free(trial *t);

/* Fills one output of the result, whose tensor and name are set; the values become the result's. */
void trial_report(trial_output *out, const view *shape, double *got, double *wanted,
                  double rounding);

/* Zeroed doubles for a tensor. */
fa_status trial_allocate(double **out, const view *shape);

#endif
