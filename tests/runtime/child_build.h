/* child_build.h: builds of GPU kernels, each in a process of its own, so that nothing stays open
   between them. */
#ifndef FAGEN_TESTS_RUNTIME_CHILD_BUILD_H
#define FAGEN_TESTS_RUNTIME_CHILD_BUILD_H

#include "runtime/cuda_build.h"
#include "runtime/digest.h"

#define FAKE_NVRTC FAGEN_BINARY_DIR "/tests/fake/libfake_nvrtc.so"
#define FAKE_NVRTC_NEXT FAGEN_BINARY_DIR "/tests/fake/libfake_nvrtc_next.so"
#define PROBE_OVERLAY FAGEN_SOURCE_DIR "/tests/runtime/overlay"

typedef struct child_request {
  const char *words; /* the spec */
  const char *cache, *overlay, *nvrtc;
  void (*prepare)(const void *); /* called first in the child; NULL = nothing */
  const void *prepared;
} child_request;

typedef struct child_outcome {
  fa_status status;
  int died; /* the signal that ended it */
  int origin;
  double render_ms, compile_ms, read_ms;
  int nvrtc_was_opened;
  digest source, code;
  char message[1024];
  char told[2048]; /* on stderr */
  int warnings;    /* lines of it */
} child_outcome;

typedef struct child {
  int pid, results, told;
} child;

/* Starts a build, and waits for its end. */
child child_start(const child_request *request);
child_outcome child_finish(child *running);
child_outcome child_build(const child_request *request);

#endif
