/* jobs.h: several kernels built at a time. */
#ifndef FAGEN_CLI_JOBS_H
#define FAGEN_CLI_JOBS_H

#include "fagen.h"
#include "gpu_build.h"

typedef struct job {
  const fa_spec *spec; /* canonical, of a GPU target; borrowed */
  char name[FA_NAME_MAX];
  fa_status status;
  char *message;      /* of a failure */
  cuda_binary binary; /* of a success */
  int dynamic_bytes[CUBIN_ENTRIES];
} job;

/* One job a spec, yours: jobs_free. NULL: out of memory. */
job *jobs_create(const fa_spec *specs, size_t count);
void jobs_free(job *jobs, size_t count);

/* Builds all; a failure does not stop the others. Shows its progress. threads: 0 = as many
   processors as this process may use; at most CLI_MOST_JOBS. */
void jobs_run(job *jobs, size_t count, int threads, const cuda_tools *tools);

#endif
