/* test_cuda_launch.c: what a launch gives the CUDA driver, and what it refuses first, seen by a driver
   that records and a compiler that takes no time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_fixture.h"
#include "support/overlay.h"

/* ---- Launches -------------------------------------------------------------------------------- */

static void a_launch_is_what_the_plan_says(void **state) {
  (void)state;
  struct CUstream_st stream = {0};
  fa_args args = make_args();
  fake.argument_bytes = 8 * 3;
  expect_ok(fa_launch(fwd, &args, &stream));
  assert_int_equal(fake.num_launches, 1);
  const fake_launch *launch = &fake.launches[0];
  assert_string_equal(launch->entry, "fa_fwd_sm80_cc90_bf16_d64_main");
  assert_int_equal(launch->config.gridDimX, SEQLEN);
  assert_int_equal(launch->config.gridDimY, HEADS);
  assert_int_equal(launch->config.gridDimZ, BATCH);
  assert_int_equal(launch->config.blockDimX * launch->config.blockDimY * launch->config.blockDimZ,
                   32);
  assert_int_equal(launch->config.numAttrs, 0);
  assert_ptr_equal(launch->config.hStream, &stream);
  const long long sizes[] = {SEQLEN, SEQLEN, HEADS};
  assert_memory_equal(launch->arguments, sizes, sizeof sizes);
}

static void a_launch_neither_allocates_nor_waits(void **state) {
  (void)state;
  struct CUstream_st stream = {0};
  fa_args args = make_args();
  fake_cuda before = fake;
  args.workspace = workspace;
  args.workspace_size = sizeof workspace;
  for (int i = 0; i < 5; ++i) {
    expect_ok(fa_launch(fwd, &args, &stream));
    expect_ok(fa_launch(bwd, &args, &stream));
  }
  assert_int_equal(fake.num_launches, 15);
  for (int i = 0; i < fake.num_launches; ++i)
    assert_ptr_equal(fake.launches[i].config.hStream, &stream);
  assert_int_equal(fake.module_loads, before.module_loads);
  assert_int_equal(fake.limits_set, before.limits_set);
  assert_int_equal(fake.allocations + fake.frees + fake.synchronisations, 0);
  assert_int_equal(fake.workspaces_taken + fake.workspaces_given, 0);
}

static void attributes_are_the_steps(void **state) {
  (void)state;
  const fa_kernel *kernel = get("fwd sm80 bf16 d64 probe_cluster");
  fa_args args = make_args();
  expect_ok(fa_launch(kernel, &args, NULL));
  assert_int_equal(fake.num_launches, 2);
  const fake_launch *first = &fake.launches[0], *second = &fake.launches[1];
  assert_int_equal(first->config.numAttrs, 2);
  assert_int_equal(first->attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  assert_int_equal(first->attributes[0].value.clusterDim.x, 2);
  assert_int_equal(first->attributes[0].value.clusterDim.y, 1);
  assert_int_equal(first->attributes[1].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  assert_int_equal(first->attributes[1].value.cooperative, 1);
  assert_int_equal(second->config.numAttrs, 1);
  assert_int_equal(second->attributes[0].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  assert_int_equal(second->attributes[0].value.programmaticStreamSerializationAllowed, 1);
}

static void tensor_maps_come_first_and_aligned(void **state) {
  (void)state;
  const fa_kernel *kernel = get("fwd sm80 bf16 d64 probe_map");
  fa_args args = make_args();
  fake.num_parameters = 2;
  expect_ok(fa_launch(kernel, &args, NULL));
  assert_int_equal(fake.tensor_maps, 1);
  assert_int_equal((uintptr_t)fake.map_out % 128, 0);
  assert_ptr_equal(fake.launches[0].parameters[0], fake.map_out);
  assert_int_equal(fake.map_type, CU_TENSOR_MAP_DATA_TYPE_UINT16);
  assert_int_equal(fake.map_swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
  assert_int_equal(fake.map_promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  assert_int_equal(fake.map_extent[0], DIM);
  assert_int_equal(fake.map_extent[1], SEQLEN);
  assert_int_equal(fake.map_stride[0], HEADS * DIM * 2);
}

static void the_shared_memory_limit_is_set_once(void **state) {
  (void)state;
  int before = fake.limits_set;
  const fa_kernel *kernel = get("fwd sm80 bf16 d64 probe_shared");
  const int64_t kibibytes[] = {64, 1, 64, 226, 1};
  for (size_t i = 0; i < COUNT_OF(kibibytes); ++i) {
    fa_args args = make_rows(kibibytes[i]);
    expect_ok(fa_launch(kernel, &args, NULL));
    assert_int_equal(fake.launches[i].config.sharedMemBytes, kibibytes[i] * 1024);
  }
  assert_int_equal(fake.limits_set - before, 1);
}

static void what_a_device_cannot_is_said_before_anything_runs(void **state) {
  (void)state;
  fa_args args = make_args();
  expect_refused(fa_launch(get("fwd sm80 bf16 d64 probe_grid"), &args, NULL), FA_UNSUPPORTED,
                 "_main|grid of 5 x 65536 x 2|65535");
  args = make_rows(300);
  expect_refused(fa_launch(get("fwd sm80 bf16 d64 probe_shared"), &args, NULL), FA_UNSUPPORTED,
                 "_main|307200 bytes of dynamic shared memory|231424");
  expect_nothing_done();
}

static void a_size_of_zero_launches_nothing(void **state) {
  (void)state;
  fa_args args = make_args();
  args.batch = 0;
  args.q.data = args.k.data = args.v.data = args.o.data = NULL;
  args.lse = NULL;
  expect_ok(fa_launch(fwd, &args, NULL));
  expect_nothing_done();
}

/* A warm start runs no Lua, which knows the lines of files. */
static void parameters_are_refused_with_their_line(void **state) {
  (void)state;
  static const int origins[] = {FA_BUILT, FA_FROM_DISK};
  overlay folder;
  overlay_create(&folder);
  for (size_t i = 0; i < COUNT_OF(origins); ++i) {
    fa_param cap = {.name = "softcap.cap"};
    fa_args args = make_args();
    fa_kernel_info info = FA_KERNEL_INFO_INIT;
    fa_context_destroy(context);
    context = open_context_with(1, NULL, folder.path);
    const fa_kernel *kernel = get("fwd sm80 bf16 d64 softcap");
    expect_ok(fa_kernel_info_get(&info, kernel));
    assert_int_equal(info.origin, origins[i]);
    expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID,
                   "softcap.lua:4: softcap.cap: missing");
    args.params = &cap;
    args.num_params = 1;
    expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID,
                   "softcap.lua:4: softcap.cap: 0;|above 0");
  }
  expect_nothing_done();
  overlay_remove(&folder);
}

/* ---- Bad pointers and layouts ---------------------------------------------------------------- */

static void memory_of_the_host_or_elsewhere_is_refused(void **state) {
  (void)state;
  static _Alignas(256) unsigned short host[ELEMENTS], pinned[ELEMENTS], far[ELEMENTS],
      foreign[ELEMENTS], managed[ELEMENTS], pooled[ELEMENTS];
  struct CUctx_st other = {.device = 0};
  fake_add_memory((char *)pinned, sizeof pinned, 1, 0, &fake.primary[0], 0);
  fake_add_memory((char *)far, sizeof far, CU_MEMORYTYPE_DEVICE, 1, &fake.primary[1], 0);
  fake_add_memory((char *)foreign, sizeof foreign, CU_MEMORYTYPE_DEVICE, 0, &other, 0);
  fake_add_memory((char *)managed, sizeof managed, 1, 0, &fake.primary[0], 1);
  fake_add_memory((char *)pooled, sizeof pooled, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
  const struct {
    unsigned short *memory;
    const char *words; /* NULL: allowed */
  } cases[] = {{host, "in the host|device 0"},
               {pinned, "in the host|device 0"},
               {far, "device 1|on 0"},
               {foreign, "another CUDA context"},
               {managed, NULL},
               {pooled, NULL}};
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fa_args args = make_args();
    fa_tensor *const of[] = {&args.q, &args.k, &args.v, &args.o};
    const char *const names[] = {"q: ", "k: ", "v: ", "o: "};
    size_t which = i % COUNT_OF(of);
    of[which]->data = cases[i].memory;
    fake.num_launches = 0;
    if (!cases[i].words) {
      expect_ok(fa_launch(fwd, &args, NULL));
      continue;
    }
    char words[128];
    snprintf(words, sizeof words, "%s|%s", names[which], cases[i].words);
    expect_refused(fa_launch(fwd, &args, NULL), FA_INVALID, words);
    expect_nothing_done();
  }
  fa_args args = make_args();
  args.lse = (float *)host;
  expect_refused(fa_launch(fwd, &args, NULL), FA_INVALID, "lse: |in the host");
  args = make_args();
  args.workspace = host;
  args.workspace_size = sizeof host;
  expect_refused(fa_launch(bwd, &args, NULL), FA_INVALID, "workspace: |in the host");
}

static void sixteen_bit_tensors_are_aligned(void **state) {
  (void)state;
  fa_args args = make_args();
  args.k.data = tensors[1] + 4;
  expect_refused(fa_launch(fwd, &args, NULL), FA_INVALID, "k: address|multiple of 16");
  args = make_args();
  args.v.stride_seq += 4;
  expect_refused(fa_launch(fwd, &args, NULL), FA_INVALID, "v.stride_seq: 196|multiple of 8");
  args = make_args();
  args.dq.stride_head += 2;
  expect_refused(fa_launch(bwd, &args, NULL), FA_INVALID, "dq.stride_head: 66|multiple of 8");
  args = make_args();
  args.o.stride_batch -= 1;
  expect_refused(fa_launch(fwd, &args, NULL), FA_INVALID, "o.stride_batch|multiple of 8");
  expect_nothing_done();
}

/* A tensor map's strides have 40 bits of bytes; a stride that leads nowhere may be any. */
static void strides_that_tma_cannot_describe_are_refused(void **state) {
  (void)state;
  const fa_kernel *kernel = get("fwd sm90 bf16 d64");
  const int64_t limit = (int64_t)1 << 39;
  fa_args args = make_args();
  args.target = FA_TARGET_SM90;
  args.k.stride_batch = limit;
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID,
                 "k.stride_batch: 549755813888|at most 549755813880 elements on sm90");
  args.k.stride_batch = limit - 8; /* this much is taken: what is refused is how far k reaches */
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID, "o: overlaps k");
  args.v.stride_seq = 4 * limit;
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID, "v.stride_seq: 2199023255552|at most");
  args.v.stride_seq = HEADS * DIM;
  args.q.stride_head = limit;
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID, "q.stride_head: 549755813888|at most");
  expect_nothing_done();
  args.q.stride_head = DIM;
  args.batch = 1;
  args.k.stride_batch = 8 * limit;
  expect_ok(fa_launch(kernel, &args, NULL));
  args = make_args(); /* kernels of sm80 compute addresses themselves */
  args.k.stride_batch = 8 * limit;
  expect_refused(fa_launch(fwd, &args, NULL), FA_INVALID, "o: overlaps k");
}

static void more_rows_than_sm90_counts_are_refused(void **state) {
  (void)state;
  const fa_kernel *kernel = get("fwd sm90 bf16 d64");
  fa_args args = make_args();
  args.target = FA_TARGET_SM90;
  args.seqlen_k = INT32_MAX;
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID, "seqlen_k: 2147483647|2147483392");
  args = make_args();
  args.target = FA_TARGET_SM90;
  args.seqlen_q = INT32_MAX - 254;
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID, "seqlen_q: 2147483393|2147483392");
  args = make_args();
  args.target = FA_TARGET_SM90;
  args.batch = INT32_MAX / 2;
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID,
                 "batch * heads_q * seqlen: 3.22e+09 tiles|2147483392");
  expect_nothing_done();
}

/* ---- Workspace ------------------------------------------------------------------------------- */

/* Of the overlay's argument block, as probe/args.c.lua declares it: d is its last member. */
enum { ARGUMENT_BYTES = 4 * 8 + 2 * 4 * 8 + 2 * 8, D_AT = ARGUMENT_BYTES - 8 };

static void a_missing_workspace_comes_from_the_callers_stream(void **state) {
  (void)state;
  struct CUstream_st stream = {0};
  fa_args args = make_args();
  fake.argument_bytes = ARGUMENT_BYTES;
  expect_ok(fa_backward(context, &args, &stream));
  for (int i = 0; i < 2; ++i) {
    void *d;
    memcpy(&d, fake.launches[i].arguments + D_AT, sizeof d);
    assert_ptr_equal(d, fake.workspace);
  }
  assert_int_equal(fake.num_launches, 2);
  assert_int_equal(fake.workspaces_taken, 1);
  assert_int_equal(fake.workspaces_given, 1);
  assert_ptr_equal(fake.workspace_from, &stream);
  assert_ptr_equal(fake.workspace_to, &stream);
  assert_int_equal(fake.launches_at_give, 2);
  assert_int_equal(fake.allocations + fake.synchronisations, 0);
  expect_ok(fa_forward(context, &args, &stream)); /* it needs none */
  assert_int_equal(fake.workspaces_taken, 1);

  args.workspace = workspace;
  args.workspace_size = sizeof workspace;
  expect_ok(fa_backward(context, &args, &stream));
  assert_int_equal(fake.workspaces_taken, 1);
}

static void a_launch_says_what_workspace_it_needs(void **state) {
  (void)state;
  fa_args args = make_args();
  size_t bytes = 0;
  expect_ok(fa_workspace_size(&bytes, bwd, &args));
  assert_int_equal(bytes, BATCH * HEADS * SEQLEN * 4);
  expect_refused(fa_launch(bwd, &args, NULL), FA_INVALID, "workspace: NULL|120 bytes");
  args.workspace = workspace;
  args.workspace_size = bytes - 1;
  expect_refused(fa_launch(bwd, &args, NULL), FA_INVALID, "workspace_size: 119|120");
  args.workspace = workspace + 128;
  args.workspace_size = bytes;
  expect_refused(fa_launch(bwd, &args, NULL), FA_INVALID, "workspace: address|256");
  args.workspace_limit = 64;
  args.workspace = NULL;
  expect_refused(fa_backward(context, &args, NULL), FA_UNSUPPORTED, "workspace_limit: 64|120");
  expect_nothing_done();
}

static void a_device_without_pools_asks_for_workspace(void **state) {
  (void)state;
  fake.devices[1].pools = 0;
  fa_context *poor = open_context(2, NULL);
  fa_args args = make_args();
  for (int i = 0; i < 3; ++i) fake.memories[i].device = 1, fake.memories[i].owner = NULL;
  expect_refused(fa_backward(poor, &args, NULL), FA_UNSUPPORTED, "workspace: NULL|120 bytes");
  args.workspace = workspace;
  args.workspace_size = sizeof workspace;
  expect_ok(fa_backward(poor, &args, NULL));
  fa_context_destroy(poor);
}

static void memory_that_runs_out_is_told(void **state) {
  (void)state;
  fa_args args = make_args();
  void *memory;
  fake.memory_result = CUDA_ERROR_OUT_OF_MEMORY;
  expect_refused(fa_backward(context, &args, NULL), FA_NO_MEMORY,
                 "workspace of 120 bytes|OUT_OF_MEMORY");
  expect_refused(fa_memory_alloc(&memory, context, 77), FA_NO_MEMORY, "bytes: 77");
  assert_null(memory);
  assert_int_equal(fake.num_launches, 0);
}

/* ---- Capture --------------------------------------------------------------------------------- */

static void a_cold_kernel_is_not_built_under_capture(void **state) {
  (void)state;
  struct CUstream_st stream = {.capturing = 1};
  fa_args args = make_args();
  expect_ok(fa_forward(context, &args, &stream)); /* warm */
  expect_ok(fa_backward(context, &args, &stream));
  int loads = fake.module_loads, launches = fake.num_launches;
  args.causal = 1;
  expect_refused(fa_forward(context, &args, &stream), FA_CAPTURE, "stream|fa_prebuild");
  expect_refused(fa_backward(context, &args, &stream), FA_CAPTURE, "stream|fa_prebuild");
  assert_int_equal(fake.module_loads, loads);
  assert_int_equal(fake.num_launches, launches);
  stream.capturing = 0;
  expect_ok(fa_forward(context, &args, &stream));
  stream.capturing = 1;
  expect_ok(fa_forward(context, &args, &stream));
  assert_int_equal(fake.num_launches, launches + 2);
}

static void loading_disturbs_no_capture(void **state) {
  (void)state;
  get("fwd sm80 f16 d64");
  assert_true(fake.module_loads > 0);
  assert_int_equal(fake.loads_under_strict_capture, 0);
  assert_int_equal(fake_capture_mode(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_DEVICE(a_launch_is_what_the_plan_says),
      ON_DEVICE(a_launch_neither_allocates_nor_waits),
      ON_DEVICE(attributes_are_the_steps),
      ON_DEVICE(tensor_maps_come_first_and_aligned),
      ON_DEVICE(the_shared_memory_limit_is_set_once),
      ON_DEVICE(what_a_device_cannot_is_said_before_anything_runs),
      ON_DEVICE(a_size_of_zero_launches_nothing),
      ON_DEVICE(parameters_are_refused_with_their_line),
      ON_DEVICE(memory_of_the_host_or_elsewhere_is_refused),
      ON_DEVICE(sixteen_bit_tensors_are_aligned),
      ON_DEVICE(strides_that_tma_cannot_describe_are_refused),
      ON_DEVICE(more_rows_than_sm90_counts_are_refused),
      ON_DEVICE(a_missing_workspace_comes_from_the_callers_stream),
      ON_DEVICE(a_launch_says_what_workspace_it_needs),
      ON_DEVICE(a_device_without_pools_asks_for_workspace),
      ON_DEVICE(memory_that_runs_out_is_told),
      ON_DEVICE(a_cold_kernel_is_not_built_under_capture),
      ON_DEVICE(loading_disturbs_no_capture),
  };
  setenv("FA_CACHE_DIR", "", 1); /* contexts that are opened without options.cache_dir */
  setenv("FA_NVRTC", FAKE_NVRTC, 1);
  return cmocka_run_group_tests_name("cuda launch", tests, expect_to_end, NULL);
}
