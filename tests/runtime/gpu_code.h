/* gpu_code.h: emitted GPU kernels, compiled by the real NVRTC, with its log. Needs no GPU.
   One after the other: NVRTC lets one thread in at a time. */
#ifndef FAGEN_TESTS_RUNTIME_GPU_CODE_H
#define FAGEN_TESTS_RUNTIME_GPU_CODE_H

#include "gen/render.h"
#include "runtime/nvrtc.h"

typedef struct gpu_code {
  fa_spec spec; /* canonical */
  char words[FA_NAME_MAX];
  render_result text;
  cubin code;
  char *log;     /* the compiler's; NULL: it did not run */
  char *failure; /* NULL: compiled */
  double ms;     /* of the compiler */
} gpu_code;

typedef struct gpu_code_list {
  gpu_code *items;
  size_t count;
} gpu_code_list;

/* Whether NVRTC is here, or where FA_NVRTC says: 0, or the exit code of a test that needs it, the
   reason printed. Where a toolkit is, a missing NVRTC is a fault and no reason to skip. */
int gpu_code_open(const char *test);

/* Every spec that the lines stand for, by the rules of the command line, rendered and compiled.
   option (NULL = none) is added to those of nvrtc_compile. What fails is told in `failure`. */
void gpu_code_compile(gpu_code_list *out, const char *const *lines, size_t count,
                      const char *option);
void gpu_code_free(gpu_code_list *list);

/* Compiles hand-written source in the place of what `words` would become. */
void gpu_code_compile_source(gpu_code_list *out, const char *words, const char *source,
                             const char *option);

#endif
