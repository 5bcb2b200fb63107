/* explain_parts.h: the parts of `explain` that need more than the spec: the launch plan and the
   compiled kernel. */
#ifndef FAGEN_CLI_EXPLAIN_PARTS_H
#define FAGEN_CLI_EXPLAIN_PARTS_H

#include "drawn.h"
#include "fagen.h"
#include "fagen_plan.h"
#include "gpu_build.h"
#include "occupancy.h"
#include "sizes.h"

/* Where a GPU kernel would run: this machine's GPU, or a model of the spec's arch. */
typedef struct explain_place {
  fa_spec spec; /* as it would run there */
  const gpu_model *model;
  int here;
  int processors;
  long long l2_bytes;
  char reason[512]; /* why it is not this machine's GPU */
} explain_place;
void explain_place_find(explain_place *out, const fa_spec *spec);

/* Each prints its sections and gives the exit code. What is missing on this machine is told in
   place, with CLI_OK. */
int explain_cpu_plan(const fa_spec *spec, const cli_sizes *sizes, const drawn_params *drawn);
int explain_gpu_plan(const explain_place *place, const cli_sizes *sizes, const drawn_params *drawn,
                     const char *launch_source);

/* Says under the heading what is missing; an error that has nothing to do with this machine stays
   an error. */
int explain_missing(const char *heading, fa_status status);

/* The compiled kernel, as the steps of the plan launch it. */
int explain_code(const explain_place *place, const fa_plan *plan);

#endif
