/* fuzz_launch.c: arguments of a launch, on a GPU whose driver runs nothing (runtime/fake_cuda.c).
   Nothing is enqueued after a failure, and no grid is larger than a GPU takes. An input is a list of
   fields with their values. */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "runtime/child_build.h"
#include "runtime/fake_cuda.h"

enum { MEMORY_BYTES = 1 << 20, NUMBERS = 16, KERNELS = 5, PARAMS = 6 };

static fa_context *context;
static const fa_kernel *kernels[KERNELS];
static _Alignas(256) char memory[MEMORY_BYTES];

static void open_once(void) {
  static const char *const words[] = {
      "fwd sm80 bf16 d64", "pre sm80 bf16 d64", "bwd sm80 bf16 d64 causal gqa2",
      "fwd sm80 bf16 d64 alibi bias softcap window", "bwd sm80 bf16 d64 det alibi softcap window"};
  fa_options options = FA_OPTIONS_INIT;
  if (context) return;
  options.backend = FA_CUDA;
  options.nvrtc = FAKE_NVRTC;
  options.cache_dir = "";
  FUZZ_CHECK(!fa_context_create(&context, &options));
  for (int i = 0; i < KERNELS; ++i) {
    fa_spec spec = FA_SPEC_INIT;
    FUZZ_CHECK(!fa_spec_parse(&spec, words[i]) && !fa_get_kernel(&kernels[i], context, &spec));
  }
  fake_add_memory(memory, sizeof memory, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
}

static int64_t number(const uint8_t *at) {
  static const int64_t known[NUMBERS] = {
      0,   1,     2,         3,         5,         8,         64,        128,
      320, 65536, INT32_MAX, 1LL << 31, 1LL << 40, INT64_MAX, INT64_MIN, -1};
  return at[0] < 2 * NUMBERS ? known[at[0] % NUMBERS] : (int64_t)at[0] << (at[1] % 48);
}

static void *address(const uint8_t *at) {
  size_t offset = ((size_t)at[0] << 12) + at[1];
  return at[0] == 255 ? NULL : at[0] == 254 ? (void *)(uintptr_t)offset : memory + offset;
}

/* As of a newer header: behind the known members come others. */
typedef struct newer_args {
  fa_args known;
  uint8_t tail[24];
  fa_param params[PARAMS];
} newer_args;
enum { NEWER_BYTES = offsetof(newer_args, params) };

/* What takes part of a parameter; the second byte says which. */
static void set_param(fa_param *params, unsigned field, const uint8_t *value) {
  static const char *const names[] = {"softcap.cap",  "window.left",  "window.right", "bias.table",
                                      "alibi.slopes", "window.width", "softcap",      NULL};
  static const double values[] = {0, 1, -1, 0.5, 30, 1e300, -1e-320, 2147483648.0, NAN, INFINITY};
  fa_param *param = &params[value[1] / 16 % PARAMS];
  const uint8_t of[] = {value[0], 0};
  if (field == 0)
    param->name = names[value[0] % 8];
  else if (field == 1)
    param->slot = (int32_t)value[0] - 8;
  else if (field == 2)
    param->value = values[value[0] % 10];
  else if (field == 3)
    param->data = address(of);
  else if (field == 4)
    param->length = number(of);
  else
    param->grad = address(of);
}

/* Those that the kernels have, so that few changes spoil them. */
static void usual_params(fa_param *out) {
  static const char *const names[PARAMS] = {"softcap.cap", "window.left",  "window.right",
                                            "bias.table",  "alibi.slopes", NULL};
  for (int i = 0; i < PARAMS; ++i) {
    out[i] = (fa_param){.name = names[i], .value = 3};
    if (i < 3) continue;
    out[i] = (fa_param){.name = names[i], .data = memory + 12 * 8192, .length = 2};
  }
}

static void set_field(newer_args *newer, const uint8_t *at) {
  fa_args *args = &newer->known;
  fa_tensor *const tensors[] = {&args->q,    &args->k,  &args->v,  &args->o,
                                &args->dout, &args->dq, &args->dk, &args->dv};
  int64_t *const sizes[] = {&args->batch, &args->heads_q, &args->heads_kv, &args->seqlen_q,
                            &args->seqlen_k};
  int32_t *const words[] = {&args->dtype,  &args->dim_qk, &args->dim_v,
                            &args->target, &args->causal, &args->deterministic};
  unsigned field = at[0] % 64;
  const uint8_t *value = at + 1;
  if (field < 5)
    *sizes[field] = number(value);
  else if (field < 11)
    *words[field - 5] = (int32_t)number(value);
  else if (field < 19)
    tensors[field - 11]->data = address(value);
  else if (field < 27)
    tensors[field - 19]->stride_batch = number(value);
  else if (field < 35)
    tensors[field - 27]->stride_seq = number(value);
  else if (field < 43)
    tensors[field - 35]->stride_head = number(value);
  else if (field == 43)
    args->lse = address(value);
  else if (field == 44)
    args->dlse = address(value);
  else if (field == 45)
    args->workspace = address(value);
  else if (field == 46)
    args->workspace_size = (size_t)number(value);
  else if (field == 47)
    args->workspace_limit = (size_t)number(value);
  else if (field == 48)
    memcpy((char *)&args->softmax_scale + 2, value, 2);
  else if (field == 49)
    args->num_params = value[0] % (PARAMS + 1);
  else if (field == 50)
    args->size = (size_t)value[0] % (NEWER_BYTES + 1);
  else if (field >= 52 && field < 58)
    set_param(newer->params, field - 52, value);
  else if (field == 51)
    newer->tail[value[0] % sizeof newer->tail] = value[1];
}

static fa_args usual(void) {
  fa_args args = FA_ARGS_INIT;
  fa_tensor *const tensors[] = {&args.q,    &args.k,  &args.v,  &args.o,
                                &args.dout, &args.dq, &args.dk, &args.dv};
  args.batch = 2;
  args.heads_q = args.heads_kv = 2;
  args.seqlen_q = args.seqlen_k = 5;
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i)
    *tensors[i] = fa_bshd(memory + i * 8192, 5, 2, 64);
  args.lse = (float *)(memory + 8 * 8192);
  args.workspace = memory + 16 * 8192;
  args.workspace_size = 64 * 8192;
  return args;
}

static void check_launches(fa_status status) {
  FUZZ_CHECK(!status || !fake.num_launches);
  FUZZ_CHECK(!status || *fa_error_message());
  for (int i = 0; i < fake.num_launches && i < FAKE_LAUNCHES; ++i) {
    const CUlaunchConfig *grid = &fake.launches[i].config;
    FUZZ_CHECK(grid->gridDimX <= 0x7fffffff && grid->gridDimY <= 65535 && grid->gridDimZ <= 65535);
    FUZZ_CHECK(grid->gridDimX && grid->gridDimY && grid->gridDimZ);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  newer_args newer = {.known = usual()};
  fa_args *args = &newer.known;
  size_t workspace = 0;
  open_once();
  if (!bytes) return 0;
  const fa_kernel *kernel = kernels[data[0] % KERNELS];
  args->heads_kv = data[0] % KERNELS == 2 ? 1 : 2;
  usual_params(newer.params);
  args->params = newer.params;
  for (size_t at = 1; at + 3 <= bytes; at += 3) set_field(&newer, data + at);
  fake.num_launches = 0;
  fa_status sized = fa_workspace_size(&workspace, kernel, args);
  FUZZ_CHECK(!fake.num_launches);
  fa_status status = fa_launch(kernel, args, NULL);
  FUZZ_CHECK(!sized || status);
  check_launches(status);
  return 0;
}
