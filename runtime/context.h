/* context.h: one opened device. */
#ifndef FAGEN_RUNTIME_CONTEXT_H
#define FAGEN_RUNTIME_CONTEXT_H

#include "backend.h"
#include "fagen.h"
#include "log.h"
#include "registry.h"

struct fa_context {
  const backend *backend;
  void *device;       /* the backend's own */
  int processors;     /* multiprocessors of the GPU, or threads on cpu */
  long long l2_bytes; /* 0 on cpu */
  log_sink log;
  char *template_dir; /* NULL = none */
  registry *kernels;
};

/* The overlay folder in force: `given` if set, else FA_TEMPLATE_DIR; NULL when that is empty too.
   */
const char *context_template_dir(const char *given);

/* An environment variable, NULL when unset or empty. */
const char *context_environment(const char *name);

#endif
