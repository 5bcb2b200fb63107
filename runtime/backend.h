/* backend.h: what a kind of device can do. The rest of the runtime knows devices by this table
   only. */
#ifndef FAGEN_RUNTIME_BACKEND_H
#define FAGEN_RUNTIME_BACKEND_H

#include "fagen.h"
#include "fagen_plan.h"

typedef struct backend {
  int kind;         /* fa_backend */
  int vector_bytes; /* 16-bit tensors: base and strides are multiples of this; 1 = any */

  /* ---- The device ---- */
  /* Opens the device that the options name: sets context->device, processors and l2_bytes. On
     failure `close` is not called. The context's log and template_dir are set before. */
  fa_status (*open)(fa_context *context, const fa_options *options);
  void (*close)(fa_context *context);
  void (*describe)(fa_context_info *out, const fa_context *context);

  /* ---- Kernels ---- */
  /* Completes a canonical spec: names its target, and its arch where that is the target's default.
     Refuses what the device does not run. */
  fa_status (*resolve)(fa_spec *spec, const fa_context *context);
  /* Fills everything of a kernel but its context and spec. After a failure `unload` is called. */
  fa_status (*build)(fa_kernel *kernel);
  void (*unload)(fa_kernel *kernel);

  /* ---- Launches: between enter and leave ---- */
  /* Makes the device current for this thread; refuses a stream that cannot be. *previous is for
     leave. */
  fa_status (*enter)(const fa_context *context, struct CUstream_st *stream, int *entered);
  void (*leave)(const fa_context *context, int entered);
  /* Whether a kernel may be built while this stream is as it is: FA_CAPTURE. */
  fa_status (*check_cold)(const fa_context *context, struct CUstream_st *stream);
  /* Whether the device reaches `address`; field is its name in messages. */
  fa_status (*check_memory)(const fa_context *context, const char *field, const void *address);
  fa_status (*run)(const fa_kernel *kernel, const fa_plan *plan, struct CUstream_st *stream);
  fa_status (*take_workspace)(void **out, const fa_context *context, size_t bytes,
                              struct CUstream_st *stream);
  void (*give_workspace)(const fa_context *context, void *workspace, struct CUstream_st *stream);

  /* ---- Memory: between enter and leave ---- */
  fa_status (*alloc)(void **out, const fa_context *context, size_t bytes);
  void (*free)(const fa_context *context, void *memory);
  fa_status (*copy)(const fa_context *context, void *to, const void *from, size_t bytes,
                    struct CUstream_st *stream);
} backend;

extern const backend cpu_backend, cuda_backend;

#endif
