/* fault_scenarios.c: the main ways through the library, on the processor, and on a GPU with the
   stand-ins for NVRTC and the driver. */
#include "fault_scenarios.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/bundle.h"
#include "gen/render.h"
#include "runtime/cache.h"
#include "runtime/child_build.h"
#include "runtime/fake_cuda.h"
#include "runtime/cli/cli.h"

enum { SEQLEN = 5, HEADS = 2, DIM = 8, CUDA_DIM = 64, ELEMENTS = SEQLEN * HEADS * CUDA_DIM };

static char folder[64], cache_dir[80];
static fa_context *context;
static const fa_kernel *kernel;
static void *memory;
static _Alignas(256) float tensors[8][ELEMENTS], lse[SEQLEN * HEADS];

static void stop(const char *what) {
  fprintf(stderr, "%s: %s\n", what, fa_error_message());
  abort();
}

static void nothing(void) {}

static void enter_folder(const char *path) {
  snprintf(folder, sizeof folder, "%s", path);
  snprintf(cache_dir, sizeof cache_dir, "%s/cache", path);
  setenv("FA_CACHE_DIR", cache_dir, 1);
  setenv("FA_NVRTC", FAKE_NVRTC, 1);
  unsetenv("FA_TEMPLATE_DIR");
  unsetenv("FA_LOG");
}

static void close_context(void) {
  fa_context_destroy(context);
  context = NULL;
  kernel = NULL;
}

static fa_status open_context(int backend) {
  fa_options options = FA_OPTIONS_INIT;
  options.backend = backend;
  options.threads = backend == FA_CPU ? 3 : 0;
  options.template_dir = backend == FA_CUDA ? PROBE_OVERLAY : NULL;
  return fa_context_create(&context, &options);
}

static fa_status get_kernel(const char *words) {
  fa_spec spec = FA_SPEC_INIT;
  fa_status status = fa_spec_parse(&spec, words);
  return status ? status : fa_get_kernel(&kernel, context, &spec);
}

/* ---- What a run may leave ----------------------------------------------------------------------- */

static void count_damaged(void *to, const cache_item *item) {
  *(int *)to += !item->key;
}

/* Whole entries, and no file that was being written. */
static const char *inspect_cache(void) {
  int damaged = 0;
  DIR *listing = opendir(cache_dir);
  if (!listing) return NULL;
  for (struct dirent *at; (at = readdir(listing));)
    if (strstr(at->d_name, ".tmp")) damaged = 1;
  closedir(listing);
  if (damaged) return "a temporary file is left in the cache";
  cache *kept = cache_open(cache_dir, log_to_stderr(LOG_OFF));
  cache_visit(kept, count_damaged, &damaged);
  cache_close(kept);
  return damaged ? "a damaged entry is in the cache" : NULL;
}

static const char *inspect_context(fa_status status) {
  if (!status != !!context) return "a status and an output that do not fit";
  return inspect_cache();
}

static const char *inspect_kernel(fa_status status) {
  fa_kernel_info info = FA_KERNEL_INFO_INIT;
  if (!status != !!kernel) return "a status and an output that do not fit";
  if (kernel && (fa_kernel_info_get(&info, kernel) || !strstr(fa_kernel_source(kernel), info.name)))
    return "a kernel without its source";
  return inspect_cache();
}

static const char *inspect_nothing(fa_status status) {
  (void)status;
  return NULL;
}

/* ---- On the processor --------------------------------------------------------------------------- */

static fa_status open_cpu(void) {
  return open_context(FA_CPU);
}

static void prepare_cpu(const char *path) {
  enter_folder(path);
  if (open_cpu()) stop("cpu");
}

static fa_status build_cpu(void) {
  return get_kernel("bwd cpu f32 d8 causal det");
}

/* The kernels stay with the context; only a new one builds again. */
static void reopen_cpu(void) {
  close_context();
  if (open_cpu()) stop("cpu");
}

static fa_args make_args(int dtype, int dim) {
  fa_args args = FA_ARGS_INIT;
  fa_tensor *const to[] = {&args.q,    &args.k,  &args.v,  &args.o,
                           &args.dout, &args.dq, &args.dk, &args.dv};
  args.batch = 1;
  args.heads_q = args.heads_kv = HEADS;
  args.seqlen_q = args.seqlen_k = SEQLEN;
  args.dtype = dtype;
  args.dim_qk = dim;
  args.lse = lse;
  for (size_t i = 0; i < COUNT_OF(to); ++i) *to[i] = fa_bshd(tensors[i], SEQLEN, HEADS, dim);
  return args;
}

static fa_status call_cpu(void) {
  const fa_args args = make_args(FA_F32, DIM);
  fa_status status = fa_forward(context, &args, NULL);
  return status ? status : fa_backward(context, &args, NULL);
}

/* Equal keys: O is the mean of V, the gradient of Q is 0, and LSE the logarithm of the keys. */
static const char *inspect_call(fa_status status) {
  int right = status || fabsf(lse[0] - logf(SEQLEN)) < 1e-5f;
  for (int i = 0; !status && i < SEQLEN * HEADS * DIM; ++i)
    right = right && fabsf(tensors[3][i] - 1) < 1e-5f && fabsf(tensors[5][i]) < 1e-5f;
  return right ? NULL : "wrong results";
}

static void poison(void) {
  for (int i = 0; i < ELEMENTS; ++i) {
    tensors[0][i] = tensors[2][i] = tensors[4][i] = 1;
    tensors[1][i] = 0;
    tensors[3][i] = tensors[5][i] = NAN;
  }
}

static void prepare_call_cpu(const char *path) {
  prepare_cpu(path);
  poison();
  if (call_cpu()) stop("call");
  poison();
}

static fa_status check_spec(void) {
  fa_spec spec = FA_SPEC_INIT;
  char reason[256];
  fa_status status = fa_spec_parse(&spec, "fwd cpu bf16 d16 causal");
  return status ? status : fa_check(&spec, reason, sizeof reason);
}

/* ---- On a GPU ----------------------------------------------------------------------------------- */

static fa_status open_cuda(void) {
  return open_context(FA_CUDA);
}

static void prepare_cuda(const char *path) {
  enter_folder(path);
  if (open_cuda()) stop("cuda");
}

static fa_status build_cuda(void) {
  return get_kernel("bwd sm80 bf16 d64");
}

/* Another process has built it before. */
static void prepare_warm(const char *path) {
  int end = 0;
  enter_folder(path);
  pid_t pid = fork();
  if (!pid) {
    if (open_cuda() || build_cuda()) stop("warming");
    close_context();
    _exit(0);
  }
  waitpid(pid, &end, 0);
  if (end || open_cuda()) stop("warming");
}

static void reopen_cuda(void) {
  close_context();
  if (open_cuda()) stop("cuda");
}

static void prepare_call_cuda(const char *path) {
  prepare_cuda(path);
  fake_add_memory((char *)tensors, sizeof tensors, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
  fake_add_memory((char *)lse, sizeof lse, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
  if (build_cuda()) stop("build");
}

static fa_status call_cuda(void) {
  fa_args args = make_args(FA_BF16, CUDA_DIM);
  args.target = FA_TARGET_SM80;
  return fa_backward(context, &args, NULL);
}

static const char *inspect_launches(fa_status status) {
  if (fake.workspaces_taken != fake.workspaces_given) return "a workspace that was not given back";
  return status || fake.num_launches ? NULL : "nothing launched";
}

static fa_status use_memory(void) {
  char bytes[64] = "text";
  fa_status status = fa_memory_alloc(&memory, context, sizeof bytes);
  if (!status) status = fa_memory_copy(context, memory, bytes, sizeof bytes, NULL);
  if (!status) status = fa_memory_copy(context, bytes, memory, sizeof bytes, NULL);
  return status;
}

static void free_memory(void) {
  fa_memory_free(context, memory);
  memory = NULL;
}

/* ---- Around the library ------------------------------------------------------------------------- */

static fa_status run_command(cli_command command, int (*run)(const cli_options *), int argc,
                             const char *const *argv) {
  cli_options options;
  char *copies[8] = {NULL};
  for (int i = 0; i < argc; ++i) copies[i] = (char *)argv[i];
  fa_status status = options_parse(&options, command, argc, copies);
  if (!status) status = run(&options) ? FA_NO_MEMORY : FA_OK;
  options_free(&options);
  return status;
}

static fa_status emit(void) {
  const char *const argv[] = {"emit", "fwd,pre cpu f32 d8", "-o", cache_dir};
  return run_command(CLI_EMIT, cli_emit, COUNT_OF(argv), argv);
}

static const char *inspect_emitted(fa_status status) {
  static const char *const names[] = {"fa_fwd_cpu_f32_d8.c", "fa_fwd_cpu_f32_d8_launch.c",
                                      "fa_pre_cpu_f32_d8.c", "fa_pre_cpu_f32_d8_launch.c"};
  int there = 0, others = 0;
  DIR *listing = opendir(cache_dir);
  for (struct dirent *at; listing && (at = readdir(listing));) {
    int known = 0;
    for (size_t i = 0; i < COUNT_OF(names); ++i) known |= !strcmp(at->d_name, names[i]);
    there += known;
    others += !known && strcmp(at->d_name, ".") && strcmp(at->d_name, "..");
  }
  if (listing) closedir(listing);
  if (others) return "a temporary file is left";
  return status || there == 4 ? NULL : "a file is missing";
}

/* What `fagen list` does for each variant there is. */
static fa_status list(void) {
  bundle_names variants;
  char *doc = NULL;
  fa_status status = bundle_variants(&variants, PROBE_OVERLAY);
  if (!status) status = render_variant_doc(&doc, "causal", PROBE_OVERLAY);
  bundle_names_free(&variants);
  free(doc);
  return status;
}

static fa_status prune(void) {
  cache *kept = cache_open(cache_dir, log_to_stderr(LOG_OFF));
  cache_prune(kept, 1);
  cache_close(kept);
  return FA_OK;
}

const fault_scenario fault_scenarios[FAULT_SCENARIOS] = {
    {"open_cpu", enter_folder, open_cpu, inspect_context, close_context, nothing},
    {"build_cpu", prepare_cpu, build_cpu, inspect_kernel, reopen_cpu, close_context},
    {"call_cpu", prepare_call_cpu, call_cpu, inspect_call, poison, close_context},
    {"check", enter_folder, check_spec, inspect_nothing, nothing, nothing},
    {"open_cuda", enter_folder, open_cuda, inspect_context, close_context, nothing},
    {"build_cuda_cold", prepare_cuda, build_cuda, inspect_kernel, reopen_cuda, close_context},
    {"build_cuda_warm", prepare_warm, build_cuda, inspect_kernel, reopen_cuda, close_context},
    {"call_cuda", prepare_call_cuda, call_cuda, inspect_launches, nothing, close_context},
    {"memory_cuda", prepare_cuda, use_memory, inspect_nothing, free_memory, close_context},
    {"emit", enter_folder, emit, inspect_emitted, nothing, nothing},
    {"list", enter_folder, list, inspect_nothing, nothing, nothing},
    {"prune", prepare_warm, prune, inspect_nothing, nothing, close_context},
};
