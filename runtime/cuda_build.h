/* cuda_build.h: from a spec to GPU code: out of the disk cache, or by rendering and compiling.
   Needs neither a GPU nor its driver. */
#ifndef FAGEN_RUNTIME_CUDA_BUILD_H
#define FAGEN_RUNTIME_CUDA_BUILD_H

#include "cache.h"
#include "cubin.h"
#include "fagen.h"
#include "nvrtc.h"

/* What building takes. */
typedef struct cuda_tools {
  const char *template_dir; /* NULL = no overlay */
  const char *nvrtc;        /* NULL = the loader's */
  cache *kept;              /* NULL = none */
  log_sink log;
} cuda_tools;

/* Everything that a GPU kernel is before a device has it. */
typedef struct cuda_binary {
  char *source, *launch_source; /* the emitted texts */
  char *params;                 /* as params_parse reads it */
  cubin code;
  char compiler[NVRTC_IDENTITY]; /* that made the code */
  int origin;                    /* fa_origin */
  double render_ms, compile_ms, read_ms;
} cuda_binary;

/* The binary of a canonical spec of a GPU target. *out is yours: cuda_binary_free. From the disk it
   runs no Lua and no NVRTC. Processes that ask for one spec at the same time compile it once.
   FA_TEMPLATE, FA_UNSUPPORTED, FA_COMPILE, FA_NO_NVRTC, FA_NO_MEMORY. */
fa_status cuda_build_or_load(cuda_binary *out, const fa_spec *spec, const cuda_tools *tools);
void cuda_binary_free(cuda_binary *binary);

#endif
