/* nvrtc.h: NVIDIA's run-time compiler, opened when first needed and never linked. Needs no GPU. */
#ifndef FAGEN_RUNTIME_NVRTC_H
#define FAGEN_RUNTIME_NVRTC_H

#include "cache.h"
#include "cubin.h"
#include "fagen.h"
#include "render.h"

typedef struct nvrtc nvrtc;

/* Opens the library, once a process for each `path`: a file, or NULL for the loader's own and then
   the CUDA toolkit's. It lives to the end of the process. FA_NO_NVRTC. */
fa_status nvrtc_open(const nvrtc **out, const char *path);

/* What tells one build of the library from another: "13.0 65be0db342ad...". */
enum { NVRTC_IDENTITY = 128 };
const char *nvrtc_identity(const nvrtc *library);

/* The version that an identity begins with, as the driver counts: 13000 for "13.0 ..."; 0 for none. */
int nvrtc_version_of(const char *identity);

/* The file that it was opened from. */
const char *nvrtc_path(const nvrtc *library);

/* The identity of what nvrtc_open would open; `memory` (may be NULL) remembers it, so that the
   library is opened only when something may have changed. Opening it takes 10 to 20 ms. Where the
   library is gone, the identity last remembered still finds what it built. FA_NO_NVRTC. */
fa_status nvrtc_identify(char identity[NVRTC_IDENTITY], const char *path, cache *memory);

/* The options that a spec is compiled with. */
enum { NVRTC_OPTIONS = 4 };
typedef struct nvrtc_options {
  char arch[40];
  const char *list[NVRTC_OPTIONS];
} nvrtc_options;
void nvrtc_options_of(nvrtc_options *out, const fa_spec *spec);

/* Compiles an emitted kernel. *out is yours: cubin_free. FA_COMPILE: the message has the log, with
   template lines. FA_NO_NVRTC: its builtins library is missing. FA_UNSUPPORTED: it does not know
   the arch. */
fa_status nvrtc_compile(cubin *out, const nvrtc *library, const render_result *text,
                        const fa_spec *spec);

#endif
