/* nvrtc_library.h: the opened library, for nvrtc*.c only. */
#ifndef FAGEN_RUNTIME_NVRTC_LIBRARY_H
#define FAGEN_RUNTIME_NVRTC_LIBRARY_H

#include "nvrtc.h"

typedef struct nvrtcProgram_st *nvrtcProgram;
typedef int nvrtcResult;

enum {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_OUT_OF_MEMORY = 1,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7
};

/* Member, exported symbol, parameters. */
#define NVRTC_FUNCTIONS(X)                                                               \
  X(Version, "nvrtcVersion", (int *major, int *minor))                                   \
  X(GetNumSupportedArchs, "nvrtcGetNumSupportedArchs", (int *count))                     \
  X(GetSupportedArchs, "nvrtcGetSupportedArchs", (int *archs))                           \
  X(CreateProgram, "nvrtcCreateProgram",                                                 \
    (nvrtcProgram * program, const char *source, const char *name, int num_headers,      \
     const char *const *headers, const char *const *header_names))                       \
  X(DestroyProgram, "nvrtcDestroyProgram", (nvrtcProgram * program))                     \
  X(CompileProgram, "nvrtcCompileProgram",                                               \
    (nvrtcProgram program, int num_options, const char *const *options))                 \
  X(GetProgramLogSize, "nvrtcGetProgramLogSize", (nvrtcProgram program, size_t * bytes)) \
  X(GetProgramLog, "nvrtcGetProgramLog", (nvrtcProgram program, char *log))              \
  X(GetCUBINSize, "nvrtcGetCUBINSize", (nvrtcProgram program, size_t * bytes))           \
  X(GetCUBIN, "nvrtcGetCUBIN", (nvrtcProgram program, char *cubin))

#define NVRTC_MEMBER(member, symbol, parameters) nvrtcResult(*member) parameters;
struct nvrtc {
  NVRTC_FUNCTIONS(NVRTC_MEMBER)
  struct nvrtc *next;
  char *asked; /* the path it was asked for by; "" = none */
  char *path;  /* the file it came from */
  char version[16];
  char identity[NVRTC_IDENTITY];
};

/* Whether the library is in the process already, so that opening it costs nothing. */
int nvrtc_is_loaded(const char *path);

/* The identity of a library file of that version, read from the file without loading it. */
void nvrtc_identity_of_file(char identity[NVRTC_IDENTITY], const char *version, const char *path);

#endif
