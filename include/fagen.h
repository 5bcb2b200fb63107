/* fagen.h: specialised attention kernels, forward and backward, generated on demand.
 * The whole public API of libfagen. Strict C99 and C++; needs no CUDA header.
 *
 * WHAT IT COMPUTES
 *   For every batch entry and query head, with S = softmax_scale * Q K^T (seqlen_q x seqlen_k):
 *     P = softmax of S over the keys that a row may see,  O = P V,  LSE = ln(sum(exp(S))).
 *   Backward takes O, LSE and dO and gives dQ, dK, dV. P is never stored: it is rebuilt tile by
 *   tile as exp(S - LSE), so memory stays linear in the sequence (Dao et al., "FlashAttention",
 *   2022, arXiv:2205.14135; the online softmax is Milakov and Gimelshein, 2018, arXiv:1805.02867).
 *
 *   - `causal` is aligned to the bottom right: query i sees key j if j <= i + seqlen_k - seqlen_q.
 *   - A row that sees no key has O = 0, LSE = -inf and gives zero gradients.
 *   - Query head h uses key/value head h / (heads_q / heads_kv): neighbours share one (GQA).
 *   - LSE is a natural logarithm, f32, one for each query head and row.
 *   - Sums are f32 whatever the storage type. dQ, dK, dV have the type of Q, K, V.
 *   - A size of 0 is success: outputs that still have elements get what an empty sum gives.
 *   - Variants change scores and masks, each a small file of expressions: see fa_param below.
 *
 * HOW TO USE IT, in the order a program grows
 *   1. fa_forward, fa_backward: fill one fa_args, call. The kernel is found or built by itself.
 *   2. fa_get_kernel, fa_workspace_size, fa_launch: choose the kernel once, launch it many times.
 *   3. fa_kernel_source, fa_kernel_info_get, fa_check: look inside.
 *
 * CONVENTIONS
 *   - Every function that can fail returns fa_status; on any status but FA_OK nothing was launched
 *     and no output was written, and fa_error_message() says why on the thread that called. Only
 *     where the driver refuses a later step of a launch (FA_DRIVER) do the steps before it run.
 *   - Structs begin with `size`, set by their FA_..._INIT. Zero in any other member means the
 *     default, except in variant parameters and tensor strides (a stride of 0 repeats one row).
 *     A struct from a newer header is accepted while its unknown tail is all zero.
 *   - `const T **out` is borrowed; `T **out` is yours to free with the function that is named.
 *   - Every function may be called from any thread. fa_context_destroy must be the last call that
 *     uses its context.
 */
#ifndef FAGEN_H
#define FAGEN_H

#include <stddef.h>
#include <stdint.h>

#define FA_VERSION_MAJOR 0
#define FA_VERSION_MINOR 1
#define FA_VERSION_PATCH 0
#define FA_VERSION (FA_VERSION_MAJOR * 10000 + FA_VERSION_MINOR * 100 + FA_VERSION_PATCH)

#ifndef FA_API
#if defined(__GNUC__)
#define FA_API __attribute__((visibility("default")))
#else
#define FA_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------- */

/* Numbers never change meaning and are never reused. */
typedef enum fa_status {
  FA_OK = 0,
  FA_INVALID = 10,     /* an argument is wrong: the message names field, value and range */
  FA_UNSUPPORTED = 11, /* a right request that this version or machine cannot serve */
  FA_BAD_STRUCT = 12,  /* a struct's size is unknown, or its unknown tail is not zero */
  FA_CAPTURE = 13,     /* would have to build a kernel while the stream is capturing */
  FA_TEMPLATE = 20,    /* a template or variant file failed: the message has file and line */
  FA_COMPILE = 21,     /* the emitted source did not compile: the message has the log */
  FA_NO_NVRTC = 22,    /* NVRTC, or its builtins library, is not on this machine */
  FA_DRIVER = 30,      /* the CUDA driver reported an error */
  FA_NO_DRIVER = 31,   /* no usable CUDA driver on this machine */
  FA_NO_MEMORY = 40    /* host or device memory ran out */
} fa_status;

/* The name of a status, such as "FA_INVALID"; "unknown status" for other numbers. Never NULL. */
FA_API const char *fa_status_name(fa_status status);

/* Why the last failing call on this thread failed. Never NULL, "" before the first failure.
   Valid until this thread's next failing call. */
FA_API const char *fa_error_message(void);

/* FA_VERSION of the library itself, to be compared with that of the header. */
FA_API int fa_version(void);

/* ---- Context: one device ------------------------------------------------------------------ */

typedef struct fa_context fa_context;

/* The opaque type behind cudaStream_t and CUstream. */
struct CUstream_st;

typedef enum fa_backend {
  FA_BACKEND_BEST = 0, /* a usable GPU, else the processor; with device or cu_context, FA_CUDA */
  FA_CPU = 1,          /* the processor: needs no driver and no compiler */
  FA_CUDA = 2          /* an NVIDIA GPU, or an error that says what is missing */
} fa_backend;

/* What FA_LOG and fa_options.log name: "off", "warn", "info", "debug". Each includes those before. */
typedef enum fa_log_level {
  FA_LOG_WARN = 1, /* what works, but not as meant, such as a cache folder that cannot be used */
  FA_LOG_INFO = 2, /* what is opened, built, loaded and removed, and how long it took */
  FA_LOG_DEBUG = 3 /* what is looked up where, and why it is not used */
} fa_log_level;

/* Receives a line without its end. Called on any thread that uses the context, perhaps on several at
   once; must not call the library. */
typedef void (*fa_log_function)(void *user, int level, const char *line);

typedef struct fa_options {
  size_t size;
  int32_t backend;  /* fa_backend */
  int32_t device;   /* CUDA: 0 = the thread's current device, else the first; n = ordinal n - 1 */
  void *cu_context; /* CUDA: a CUcontext to use instead of the device's primary one */
  int32_t threads;  /* cpu: threads a launch uses, 1 to 1024; 0 = FA_THREADS, else all processors */
  int32_t reserved;
  const char *template_dir;     /* overlay of templates that come first; NULL = FA_TEMPLATE_DIR */
  const char *cache_dir;        /* disk cache of GPU kernels; NULL = FA_CACHE_DIR; "" = none */
  const char *nvrtc;            /* path of libnvrtc; NULL = FA_NVRTC, else the loader's */
  const char *log;              /* "off", "warn", "info", "debug"; NULL = FA_LOG, else "warn" */
  fa_log_function log_function; /* receives the lines; NULL = they go to stderr */
  void *log_user;               /* its first argument */
} fa_options;
/* clang-format off */
#define FA_OPTIONS_INIT { sizeof(fa_options), 0, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL }
/* clang-format on */

/* Opens a device. options may be NULL. The strings are copied. *out is yours: fa_context_destroy.
   FA_NO_DRIVER, FA_DRIVER, FA_INVALID, FA_BAD_STRUCT, FA_NO_MEMORY. */
FA_API fa_status fa_context_create(fa_context **out, const fa_options *options);

/* Frees the context and all its kernels; NULL is allowed. No call on it may be under way. */
FA_API void fa_context_destroy(fa_context *context);

typedef struct fa_context_info {
  size_t size;
  int32_t backend; /* FA_CPU or FA_CUDA */
  int32_t arch;    /* the arch of fa_spec that the device runs, such as 90; 0 on cpu */
  int32_t threads; /* cpu: threads a launch uses */
  int32_t reserved;
  const char *simd; /* cpu: the primitives in use, such as "avx2"; "" on a GPU. Static. */
} fa_context_info;
/* clang-format off */
#define FA_CONTEXT_INFO_INIT { sizeof(fa_context_info), 0, 0, 0, 0, NULL }
/* clang-format on */
FA_API fa_status fa_context_info_get(fa_context_info *out, const fa_context *context);

/* ---- Specification: what a kernel is specialised on ---------------------------------------- */

typedef enum fa_pass {
  FA_FWD = 1, /* O and LSE */
  FA_PRE = 2, /* D = rowsum(dO * O) - dLSE alone, into the workspace of FA_BWD */
  FA_BWD = 3  /* dQ, dK, dV from Q, K, V, O, LSE and dO: everything backward needs */
} fa_pass;

typedef enum fa_target {
  FA_TARGET_BEST = 0, /* the best that the context's device can run */
  FA_TARGET_CPU = 1,
  FA_TARGET_SM80 = 2, /* mma.sync and cp.async: compute capability 8.0 to 12.x */
  FA_TARGET_SM90 = 3  /* wgmma and TMA: compute capability 9.0 */
} fa_target;

typedef enum fa_dtype { FA_F16 = 1, FA_BF16 = 2, FA_F32 = 3 } fa_dtype;

#define FA_DIM_MAX 256      /* head dimensions are multiples of 8 up to this */
#define FA_VARIANTS_MAX 120 /* bytes for the names of a spec's variants, the final 0 included */
#define FA_NAME_MAX 256     /* bytes that hold any canonical string or function name */

typedef struct fa_spec {
  size_t size;
  int32_t pass;          /* fa_pass; required */
  int32_t target;        /* fa_target */
  int32_t arch;          /* 80 86 89 90 100 120; 0 = the device's, or 80 for sm80, 90 for sm90 */
  int32_t dtype;         /* fa_dtype; required; FA_F32 on cpu only */
  int32_t dim_qk;        /* head dimension of Q and K: 8, 16, ... 256; required */
  int32_t dim_v;         /* head dimension of V and O; 0 = dim_qk */
  int32_t group;         /* query heads a key/value head; 0 = 1 */
  int32_t causal;        /* 0 or 1 */
  int32_t deterministic; /* 0 or 1: gradients bitwise equal from run to run */
  int32_t reserved;
  char variants[FA_VARIANTS_MAX]; /* names in the order they act, one space between; "" = none */
} fa_spec;
/* clang-format off */
#define FA_SPEC_INIT { sizeof(fa_spec), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0} }
/* clang-format on */

/* Reads words in any order, such as "bwd cpu bf16 d128 v64 gqa4 causal det softcap".
   *out->size must be set (FA_SPEC_INIT). FA_INVALID names the word. Whether a variant exists is
   seen by fa_check and fa_get_kernel. */
FA_API fa_status fa_spec_parse(fa_spec *out, const char *words);

/* Writes the canonical words, or the name of the emitted function, which is the same words joined
   ("fa_fwd_cpu_f32_d64_causal"; a _ within a variant's name is doubled). buffer holds `bytes` bytes;
   FA_NAME_MAX always suffices. */
FA_API fa_status fa_spec_print(char *buffer, size_t bytes, const fa_spec *spec);
FA_API fa_status fa_spec_name(char *buffer, size_t bytes, const fa_spec *spec);

/* Says whether a kernel for this spec can be generated here, without building it: FA_OK, or the
   status that fa_get_kernel would give. reason (NULL allowed) gets the sentence, cut to bytes. */
FA_API fa_status fa_check(const fa_spec *spec, char *reason, size_t bytes);

/* ---- Arguments of a launch ------------------------------------------------------------------ */

/* Element (b, i, h, c) of a batch x seqlen x heads x dim tensor lies at
   data + b * stride_batch + i * stride_seq + h * stride_head + c, in elements.
   Inputs may overlap each other and repeat by strides of 0. An output overlaps nothing, itself
   included. data is aligned to its element; for 16-bit types on a GPU to 16 bytes, with strides
   that are multiples of 8 (and below 2^39 on sm90). data may be NULL when the tensor has no
   elements. */
typedef struct fa_tensor {
  void *data;
  int64_t stride_batch, stride_seq, stride_head;
} fa_tensor;

/* The two common dense layouts: batch x seqlen x heads x dim and batch x heads x seqlen x dim. */
static inline fa_tensor fa_bshd(void *data, int64_t seqlen, int64_t heads, int64_t dim) {
  fa_tensor t;
  t.data = data;
  t.stride_batch = seqlen * heads * dim;
  t.stride_seq = heads * dim;
  t.stride_head = dim;
  return t;
}
static inline fa_tensor fa_bhsd(void *data, int64_t seqlen, int64_t heads, int64_t dim) {
  fa_tensor t;
  t.data = data;
  t.stride_batch = heads * seqlen * dim;
  t.stride_seq = dim;
  t.stride_head = seqlen * dim;
  return t;
}

/* A parameter of a variant, by name ("softcap.cap") or, with name NULL, by fa_param_slot. A kernel
   takes every parameter of its variants, each once. What a parameter is stands in the variant's
   file: a scalar, within limits that are checked; or a table, dense, of one element for each query
   head (heads_q), query (batch x seqlen_q) or key (batch x seqlen_k), or of a length that is given
   here, perhaps for each query head (heads_q x length; then `length` counts them all). Values of
   tables are not looked at before they are used; an index past an end of a table reads that end. */
typedef struct fa_param {
  const char *name;
  int32_t slot;
  int32_t reserved;
  double value;     /* a scalar's value; an i32 parameter takes whole numbers */
  const void *data; /* a table's values, f32 or i32, on the context's device */
  int64_t length;   /* of data, in elements */
  /* Backward: receives the gradient, as many elements as the parameter has, written and not added
     to; NULL = not wanted. Only of parameters that are declared to have one. */
  float *grad;
} fa_param;

typedef struct fa_args {
  size_t size;

  /* The problem. */
  int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  float softmax_scale; /* finite and > 0; 0 = 1 / sqrt(dim_qk). Note: cuDNN's own default is 1. */

  /* What selects the kernel. fa_forward and fa_backward need dtype and dim_qk; for fa_launch and
     fa_workspace_size 0 means "as the kernel", and anything else must agree with it. */
  int32_t dtype; /* fa_dtype */
  int32_t dim_qk, dim_v;
  int32_t target; /* fa_target */
  int32_t causal;
  int32_t deterministic;
  const char *variants; /* as in fa_spec; NULL = none */

  /* Tensors. q and o are batch x seqlen_q x heads_q, k and v batch x seqlen_k x heads_kv. */
  fa_tensor q, k, v;    /* in */
  fa_tensor o;          /* out of forward, into backward */
  float *lse;           /* batch x heads_q x seqlen_q, dense, f32: out of forward, into backward */
  fa_tensor dout;       /* backward, in: the gradient into o */
  const float *dlse;    /* backward, in: the gradient into lse, laid out as lse; NULL = none */
  fa_tensor dq, dk, dv; /* backward, out: laid out as q, k, v, strides of their own */

  /* Variant parameters. */
  const fa_param *params;
  size_t num_params;

  /* Workspace: aligned to 256 bytes, never needs clearing, may be used again in stream order.
     NULL: fa_forward and fa_backward bring their own, of which a context on a GPU keeps up to 256
     MiB between calls; fa_launch gives FA_INVALID and the bytes. */
  void *workspace;
  size_t workspace_size;
  size_t workspace_limit; /* 0 = none; else the plan works in sections to stay below, or says so */
} fa_args;

/* Sets size, and everything else to zero. */
#ifdef __cplusplus
static inline fa_args fa_args_init() {
  fa_args args = fa_args();
  args.size = sizeof(fa_args);
  return args;
}
#define FA_ARGS_INIT fa_args_init()
#else
/* clang-format off */
#define FA_ARGS_INIT { .size = sizeof(fa_args) }
/* clang-format on */
#endif

/* ---- 1. One call ---------------------------------------------------------------------------- */

/* Forward: writes o and lse. Backward: reads q, k, v, o, lse, dout, writes dq, dk, dv.
   The first call of a new case builds its kernel. On a GPU the work is enqueued on `stream` (NULL
   is the legacy stream); on cpu, stream must be NULL and the call returns when the work is done.
   FA_INVALID, FA_UNSUPPORTED, FA_BAD_STRUCT, FA_CAPTURE, FA_TEMPLATE, FA_COMPILE, FA_NO_NVRTC,
   FA_DRIVER, FA_NO_MEMORY. */
FA_API fa_status fa_forward(fa_context *context, const fa_args *args, struct CUstream_st *stream);
FA_API fa_status fa_backward(fa_context *context, const fa_args *args, struct CUstream_st *stream);

/* ---- 2. Choose once, launch often ------------------------------------------------------------ */

/* A kernel belongs to its context and lives as long; it is never freed alone. */
typedef struct fa_kernel fa_kernel;

/* Finds the kernel, or builds it: render, compile, load. Threads that ask for one kernel at the
   same time cause one build and the others wait; builds of different kernels do not wait for each
   other's lock. A failure is not kept: the next call tries again. */
FA_API fa_status fa_get_kernel(const fa_kernel **out, fa_context *context, const fa_spec *spec);

/* Builds what is not there yet: `count` specs, specs[0].size bytes apart, to the first error. */
FA_API fa_status fa_prebuild(fa_context *context, const fa_spec *specs, size_t count);

/* Bytes that fa_launch needs as workspace for these sizes; tensors need not be set, nor parameters,
   but for the lengths of tables that have a gradient. */
FA_API fa_status fa_workspace_size(size_t *bytes, const fa_kernel *kernel, const fa_args *args);

/* Runs the kernel. Never compiles, allocates, synchronises the device or touches another stream;
   allowed while the stream is being captured into a CUDA graph. An FA_PRE kernel reads o, dout and
   dlse, and leaves D (f32, batch x heads_q x seqlen_q) at the start of the workspace. */
FA_API fa_status fa_launch(const fa_kernel *kernel, const fa_args *args,
                           struct CUstream_st *stream);

/* The slot of a variant parameter, for fa_param. FA_INVALID lists the names there are. */
FA_API fa_status fa_param_slot(int32_t *slot, const fa_kernel *kernel, const char *name);

/* ---- 3. Look inside ------------------------------------------------------------------------- */

/* The emitted kernel, and the emitted C of its launch plan. The text belongs to the kernel. */
FA_API const char *fa_kernel_source(const fa_kernel *kernel);
FA_API const char *fa_kernel_launch_source(const fa_kernel *kernel);

typedef enum fa_origin { FA_BUILT = 1, FA_FROM_DISK = 2 } fa_origin;

typedef struct fa_kernel_info {
  size_t size;
  const char *name;     /* of the emitted function; belongs to the kernel */
  int32_t target;       /* fa_target, never FA_TARGET_BEST */
  int32_t origin;       /* fa_origin */
  int32_t registers;    /* a thread, the largest of all entries; 0 on cpu */
  int32_t shared_bytes; /* a block, the largest of all entries; on cpu, scratch bytes a thread */
  int32_t spill_bytes;  /* 0 on cpu */
  int32_t reserved;
  double render_ms, compile_ms, load_ms; /* 0 for a step that was not needed */
} fa_kernel_info;
/* clang-format off */
#define FA_KERNEL_INFO_INIT { sizeof(fa_kernel_info), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */
FA_API fa_status fa_kernel_info_get(fa_kernel_info *out, const fa_kernel *kernel);

/* ---- Memory on the context's device --------------------------------------------------------- */

/* For examples and for languages with only an FFI. alloc gives 256-byte aligned, uninitialised
   memory, yours: fa_memory_free (NULL is allowed). copy takes pointers of the host or the device on
   either side and returns when done, after the work enqueued before on `stream`. */
FA_API fa_status fa_memory_alloc(void **out, fa_context *context, size_t bytes);
FA_API void fa_memory_free(fa_context *context, void *memory);
FA_API fa_status fa_memory_copy(fa_context *context, void *to, const void *from, size_t bytes,
                                struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
