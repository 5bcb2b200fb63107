/* context.h: one opened device. */
#ifndef FAGEN_RUNTIME_CONTEXT_H
#define FAGEN_RUNTIME_CONTEXT_H

#include "cpu_pool.h"
#include "fagen.h"
#include "registry.h"

struct fa_context {
  int backend; /* FA_CPU */
  int log;     /* whether builds are told on stderr */
  char *template_dir; /* NULL = none */
  const char *simd;
  cpu_pool *pool;
  registry *kernels;
};

/* The overlay folder in force: `given` if set, else FA_TEMPLATE_DIR; NULL when that is empty too.
   */
const char *context_template_dir(const char *given);

#endif
