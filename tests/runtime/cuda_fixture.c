/* cuda_fixture.c: see cuda_fixture.h. */
#include "cuda_fixture.h"

fa_context *context;
const fa_kernel *fwd, *bwd;
_Alignas(256) unsigned short tensors[8][ELEMENTS];
_Alignas(256) float lse[BATCH * HEADS * SEQLEN];
_Alignas(256) char workspace[4096];
static _Alignas(256) unsigned short rows[MOST_ROWS * DIM];
static _Alignas(256) float row_lse[MOST_ROWS];

fa_context *open_context_with(int device, CUcontext given, const char *cache_dir) {
  fa_context *opened;
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CUDA;
  options.device = device;
  options.cu_context = given;
  options.nvrtc = FAKE_NVRTC;
  options.template_dir = PROBE_OVERLAY;
  options.cache_dir = cache_dir;
  expect_ok(fa_context_create(&opened, &options));
  return opened;
}

fa_context *open_context(int device, CUcontext given) {
  return open_context_with(device, given, "");
}

const fa_kernel *get(const char *words) {
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(fa_get_kernel(&kernel, context, &spec));
  return kernel;
}

/* The test's memory is that of device 0. */
int open_device(void **state) {
  (void)state;
  fake_reset();
  context = open_context(1, NULL);
  fake_add_memory((char *)tensors, sizeof tensors, CU_MEMORYTYPE_DEVICE, 0, &fake.primary[0], 0);
  fake_add_memory((char *)lse, sizeof lse, CU_MEMORYTYPE_DEVICE, 0, &fake.primary[0], 0);
  fake_add_memory(workspace, sizeof workspace, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
  fake_add_memory((char *)rows, sizeof rows, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
  fake_add_memory((char *)row_lse, sizeof row_lse, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
  fwd = get("fwd sm80 bf16 d64");
  bwd = get("bwd sm80 bf16 d64");
  return 0;
}

int close_device(void **state) {
  (void)state;
  fa_context_destroy(context);
  return 0;
}

fa_args make_args(void) {
  fa_args args = FA_ARGS_INIT;
  fa_tensor *const to[] = {&args.q,    &args.k,  &args.v,  &args.o,
                           &args.dout, &args.dq, &args.dk, &args.dv};
  args.batch = BATCH;
  args.heads_q = args.heads_kv = HEADS;
  args.seqlen_q = args.seqlen_k = SEQLEN;
  args.dtype = FA_BF16;
  args.dim_qk = DIM;
  args.target = FA_TARGET_SM80;
  args.lse = lse;
  for (size_t i = 0; i < COUNT_OF(to); ++i) *to[i] = fa_bshd(tensors[i], SEQLEN, HEADS, DIM);
  return args;
}

/* One row for each batch entry. */
fa_args make_rows(int64_t batch) {
  fa_args args = make_args();
  args.batch = batch;
  args.heads_q = args.heads_kv = args.seqlen_q = args.seqlen_k = 1;
  args.q.stride_batch = args.k.stride_batch = args.v.stride_batch = 0;
  args.o = fa_bshd(rows, 1, 1, DIM);
  args.lse = row_lse;
  return args;
}

void expect_nothing_done(void) {
  assert_int_equal(fake.num_launches, 0);
  assert_int_equal(fake.workspaces_taken - fake.workspaces_given, 0);
}
