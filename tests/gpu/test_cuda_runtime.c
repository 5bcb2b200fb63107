/* test_cuda_runtime.c: the CUDA backend on a real GPU: order on streams, graph capture, workspace,
   foreign memory, limits of a launch. The kernels are those of tests/runtime/overlay, whose outputs
   tell what ran: forward gives O = Q and LSE = seqlen_k, backward dQ = dO by way of the workspace.
   */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "runtime/context.h"
#include "runtime/cuda_device.h"
#include "support/expect.h"
#include "support/overlay.h"

enum { BATCH = 2, HEADS = 3, SEQLEN = 33, DIM = 64, ROWS = BATCH * HEADS * SEQLEN };
enum { ELEMENTS = ROWS * DIM, TENSOR_BYTES = ELEMENTS * 2 };
enum { Q, K, V, O, DOUT, DQ, DK, DV, TENSORS };

static device_functions gpu;
static fa_context *context;
static CUcontext primary;
static overlay cache_folder;
static void *tensors[TENSORS], *lse;
static unsigned short read_back[ELEMENTS];
static float read_lse[ROWS];

/* The overlay beside the sources, or below the folder that the test is run in. */
static const char *probe_overlay(void) {
  static const char built[] = FAGEN_SOURCE_DIR "/tests/runtime/overlay";
  return access(built, R_OK) ? "tests/runtime/overlay" : built;
}

static fa_status try_context(fa_context **out, int device, void *given) {
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CUDA;
  options.device = device;
  options.cu_context = given;
  options.template_dir = probe_overlay();
  options.cache_dir = cache_folder.path;
  return fa_context_create(out, &options);
}

static fa_status try_kernel(const fa_kernel **out, fa_context *in, const char *words) {
  fa_spec spec = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  return fa_get_kernel(out, in, &spec);
}

static const fa_kernel *get(const char *words) {
  const fa_kernel *kernel;
  expect_ok(try_kernel(&kernel, context, words));
  return kernel;
}

/* A stream that does not wait for the legacy stream, nor that for it. */
static CUstream new_stream(void) {
  CUstream stream;
  expect_cu(gpu.CtxSetCurrent(primary));
  expect_cu(gpu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

static void set(int tensor, unsigned short value, CUstream stream) {
  expect_cu(gpu.MemsetD16Async((uintptr_t)tensors[tensor], value, ELEMENTS, stream));
}

static void expect_tensor(const char *what, const void *memory, unsigned short value,
                          CUstream stream) {
  expect_ok(fa_memory_copy(context, read_back, memory, TENSOR_BYTES, stream));
  for (int i = 0; i < ELEMENTS; ++i)
    if (read_back[i] != value)
      fail_msg("%s: element %d is %#x, not %#x", what, i, read_back[i], value);
}

static void expect_lse(float value, CUstream stream) {
  expect_ok(fa_memory_copy(context, read_lse, lse, sizeof read_lse, stream));
  for (int i = 0; i < ROWS; ++i)
    if (read_lse[i] != value)
      fail_msg("lse: row %d is %g, not %g", i, (double)read_lse[i], (double)value);
}

static fa_args make_args(void) {
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
  for (int i = 0; i < TENSORS; ++i) *to[i] = fa_bshd(tensors[i], SEQLEN, HEADS, DIM);
  return args;
}

static int open_device(void **state) {
  (void)state;
  overlay_create(&cache_folder);
  expect_ok(try_context(&context, 1, NULL));
  primary = ((cuda_device *)context->device)->current;
  for (int i = 0; i < TENSORS; ++i) expect_ok(fa_memory_alloc(&tensors[i], context, TENSOR_BYTES));
  expect_ok(fa_memory_alloc(&lse, context, sizeof read_lse));
  get("fwd sm80 bf16 d64");
  get("bwd sm80 bf16 d64");
  return 0;
}

static int close_device(void **state) {
  (void)state;
  for (int i = 0; i < TENSORS; ++i) fa_memory_free(context, tensors[i]);
  fa_memory_free(context, lse);
  fa_context_destroy(context);
  overlay_remove(&cache_folder);
  gpu.CtxSetCurrent(NULL);
  return 0;
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* Keeps a stream busy for some tens of milliseconds. */
static void keep_busy(CUstream stream, void *memory, size_t bytes) {
  for (int i = 0; i < 200; ++i)
    expect_cu(gpu.MemsetD8Async((uintptr_t)memory, (unsigned char)i, bytes, stream));
}

static void work_stays_on_the_callers_stream(void **state) {
  (void)state;
  const size_t bytes = (size_t)512 << 20;
  void *memory;
  CUstream stream = new_stream();
  fa_args args = make_args();
  expect_ok(fa_memory_alloc(&memory, context, bytes));
  set(Q, 0x1111, stream);
  set(DOUT, 0x2222, stream);
  expect_cu(gpu.CtxSynchronize());
  keep_busy(stream, memory, bytes); /* whatever does not queue here reads what is there now */
  set(Q, 0x3f80, stream);
  set(DOUT, 0x4000, stream);
  expect_ok(fa_forward(context, &args, stream));
  expect_ok(fa_backward(context, &args, stream));
  set(Q, 0x5555, stream);
  expect_tensor("o", tensors[O], 0x3f80, stream);
  expect_lse(SEQLEN, stream);
  expect_tensor("dq", tensors[DQ], 0x4000, stream);
  fa_memory_free(context, memory);
  expect_cu(gpu.StreamDestroy(stream));
}

static void the_legacy_and_the_threads_own_stream_work(void **state) {
  (void)state;
  CUstream streams[] = {NULL, (CUstream)1, (CUstream)2};
  fa_args args = make_args();
  for (size_t i = 0; i < COUNT_OF(streams); ++i) {
    expect_cu(gpu.CtxSetCurrent(primary));
    set(Q, (unsigned short)(0x100 + i), streams[i]);
    expect_ok(fa_forward(context, &args, streams[i]));
    expect_tensor("o", tensors[O], (unsigned short)(0x100 + i), streams[i]);
  }
}

/* Setting NULL only uncovers the context below on the thread's stack. */
static void make_current(const driver *cu, CUcontext wanted) {
  CUcontext now;
  do {
    expect_cu(gpu.CtxSetCurrent(wanted));
    expect_cu(cu->CtxGetCurrent(&now));
  } while (now != wanted);
}

static void the_threads_context_stays_as_found(void **state) {
  (void)state;
  CUcontext other, now;
  const driver *cu = ((cuda_device *)context->device)->cu;
  fa_args args = make_args();
  expect_cu(gpu.CtxCreate(&other, 0, 0));
  const CUcontext found[] = {NULL, other, primary};
  for (size_t i = 0; i < COUNT_OF(found); ++i) {
    make_current(cu, found[i]);
    expect_ok(fa_forward(context, &args, NULL));
    expect_ok(fa_backward(context, &args, NULL));
    expect_ok(fa_memory_copy(context, read_back, tensors[O], TENSOR_BYTES, NULL));
    expect_cu(cu->CtxGetCurrent(&now));
    assert_ptr_equal(now, found[i]);
  }
  expect_cu(gpu.CtxDestroy(other));
}

static void a_context_may_be_given(void **state) {
  (void)state;
  CUcontext own;
  fa_context *in_own;
  const fa_kernel *kernel;
  expect_cu(gpu.CtxCreate(&own, 0, 0));
  expect_cu(gpu.CtxSetCurrent(NULL));
  expect_ok(try_context(&in_own, 0, own));
  expect_ok(try_kernel(&kernel, in_own, "fwd sm80 bf16 d64"));
  void *q, *o, *rows;
  expect_ok(fa_memory_alloc(&q, in_own, TENSOR_BYTES));
  expect_ok(fa_memory_alloc(&o, in_own, TENSOR_BYTES));
  expect_ok(fa_memory_alloc(&rows, in_own, sizeof read_lse));
  fa_args args = make_args();
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID, "q: |another CUDA context");
  args.q.data = args.k.data = args.v.data = q;
  args.o.data = o;
  args.lse = rows;
  memset(read_back, 0x12, sizeof read_back);
  expect_ok(fa_memory_copy(in_own, q, read_back, TENSOR_BYTES, NULL));
  expect_ok(fa_launch(kernel, &args, NULL));
  memset(read_back, 0, sizeof read_back);
  expect_ok(fa_memory_copy(in_own, read_back, o, TENSOR_BYTES, NULL));
  for (int i = 0; i < ELEMENTS; ++i) assert_int_equal(read_back[i], 0x1212);
  fa_context_destroy(in_own);
  expect_cu(gpu.CtxDestroy(own));
}

/* ---- Capture --------------------------------------------------------------------------------- */

static void replay(CUgraph graph, CUstream stream) {
  CUgraphExec exec;
  expect_cu(gpu.GraphInstantiate(&exec, graph, 0));
  for (unsigned short round = 1; round <= 3; ++round) {
    set(Q, round, stream);
    set(DOUT, (unsigned short)(0x40 + round), stream);
    set(O, 0xffff, stream);
    set(DQ, 0xffff, stream);
    expect_cu(gpu.GraphLaunch(exec, stream));
    expect_tensor("o", tensors[O], round, stream);
    expect_tensor("dq", tensors[DQ], (unsigned short)(0x40 + round), stream);
    expect_lse(SEQLEN, stream);
  }
  expect_cu(gpu.GraphExecDestroy(exec));
  expect_cu(gpu.GraphDestroy(graph));
}

static void a_captured_call_replays(void **state) {
  (void)state;
  void *workspace;
  size_t bytes;
  CUstream stream = new_stream();
  fa_args args = make_args();
  expect_ok(fa_workspace_size(&bytes, get("bwd sm80 bf16 d64"), &args));
  expect_ok(fa_memory_alloc(&workspace, context, bytes));
  for (int own = 0; own < 2; ++own) { /* the library's workspace, then the caller's */
    CUgraph graph;
    args.workspace = own ? workspace : NULL;
    args.workspace_size = own ? bytes : 0;
    expect_cu(gpu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    expect_ok(fa_forward(context, &args, stream));
    expect_ok(fa_backward(context, &args, stream));
    expect_cu(gpu.StreamEndCapture(stream, &graph));
    replay(graph, stream);
  }
  fa_memory_free(context, workspace);
  expect_cu(gpu.StreamDestroy(stream));
}

static void a_cold_kernel_leaves_the_capture_as_it_was(void **state) {
  (void)state;
  CUgraph graph;
  CUstream stream = new_stream();
  fa_args args = make_args(), cold = make_args();
  cold.causal = 1;
  expect_cu(gpu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  expect_ok(fa_forward(context, &args, stream));
  expect_refused(fa_forward(context, &cold, stream), FA_CAPTURE, "capturing");
  expect_refused(fa_backward(context, &cold, stream), FA_CAPTURE, "capturing");
  get("fwd sm80 f16 d72"); /* building by name is allowed, and disturbs nothing */
  expect_ok(fa_backward(context, &args, stream));
  expect_cu(gpu.StreamEndCapture(stream, &graph));
  replay(graph, stream);
  expect_ok(fa_forward(context, &cold, stream));
  expect_cu(gpu.StreamDestroy(stream));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void memory_of_each_kind_is_taken_or_named(void **state) {
  (void)state;
  const cuda_device *device = context->device;
  const driver *cu = device->cu;
  void *pinned;
  CUdeviceptr managed, pooled;
  fa_args args = make_args();
  static _Alignas(256) unsigned short host[ELEMENTS];
  expect_cu(gpu.CtxSetCurrent(primary));
  expect_cu(gpu.MemHostAlloc(&pinned, TENSOR_BYTES, 0));
  expect_cu(gpu.MemAllocManaged(&managed, TENSOR_BYTES, CU_MEM_ATTACH_GLOBAL));
  expect_cu(cu->MemAllocFromPoolAsync(&pooled, TENSOR_BYTES, device->pool, NULL));
  args.q.data = host;
  expect_refused(fa_forward(context, &args, NULL), FA_INVALID, "q: address|the host|device 0");
  args.q.data = pinned;
  expect_refused(fa_forward(context, &args, NULL), FA_INVALID, "q: address|the host|device 0");
  const CUdeviceptr allowed[] = {managed, pooled};
  for (size_t i = 0; i < COUNT_OF(allowed); ++i) {
    args.q.data = (void *)(uintptr_t)allowed[i];
    expect_cu(gpu.MemsetD16Async(allowed[i], (unsigned short)(0x700 + i), ELEMENTS, NULL));
    expect_ok(fa_forward(context, &args, NULL));
    expect_tensor("o", tensors[O], (unsigned short)(0x700 + i), NULL);
  }
  /* Inside an allocation, not only at its start. */
  args = make_args();
  args.batch = 1;
  args.q.data = (unsigned short *)tensors[Q] + ELEMENTS / 2;
  expect_ok(fa_forward(context, &args, NULL));
  expect_cu(gpu.MemFreeHost(pinned));
  expect_cu(cu->MemFree(managed));
  expect_cu(cu->MemFreeAsync(pooled, NULL));
}

static void another_devices_memory_is_refused(void **state) {
  (void)state;
  fa_context *second;
  void *far;
  fa_args args = make_args();
  fa_status status = try_context(&second, 2, NULL);
  if (status == FA_INVALID) {
    printf("SKIP: there is one GPU\n");
    skip();
  }
  expect_ok(status);
  expect_ok(fa_memory_alloc(&far, second, TENSOR_BYTES));
  args.k.data = far;
  expect_refused(fa_forward(context, &args, NULL), FA_INVALID, "k: address|device 1|on 0");
  fa_memory_free(second, far);
  fa_context_destroy(second);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void shared_memory_is_up_to_the_devices_limit(void **state) {
  (void)state;
  const fa_kernel *kernel = get("fwd sm80 bf16 d64 probe_shared");
  const int most = ((cuda_device *)context->device)->shared_bytes / 1024;
  const int kibibytes[] = {64, 1, 64, most, 1, most};
  void *rows, *row_lse;
  expect_ok(fa_memory_alloc(&rows, context, (size_t)(most + 1) * DIM * 2));
  expect_ok(fa_memory_alloc(&row_lse, context, (size_t)(most + 1) * sizeof(float)));
  fa_args args = make_args();
  args.heads_q = args.heads_kv = args.seqlen_q = args.seqlen_k = 1;
  args.q = args.k = args.v = fa_bshd(tensors[Q], 1, 1, DIM);
  args.q.stride_batch = args.k.stride_batch = args.v.stride_batch = 0;
  args.o = fa_bshd(rows, 1, 1, DIM);
  args.lse = row_lse;
  for (size_t i = 0; i < COUNT_OF(kibibytes); ++i) {
    expect_cu(gpu.CtxSetCurrent(primary));
    set(Q, (unsigned short)(0x900 + i), NULL);
    args.batch = kibibytes[i];
    expect_ok(fa_launch(kernel, &args, NULL));
    expect_ok(fa_memory_copy(context, read_back, rows, DIM * 2, NULL));
    for (int c = 0; c < DIM; ++c) assert_int_equal(read_back[c], 0x900 + i);
  }
  args.batch = most + 1;
  expect_refused(fa_launch(kernel, &args, NULL), FA_UNSUPPORTED, "dynamic shared memory");
  fa_memory_free(context, rows);
  fa_memory_free(context, row_lse);
}

static void a_grid_beyond_the_limit_is_refused(void **state) {
  (void)state;
  fa_args args = make_args();
  expect_refused(fa_launch(get("fwd sm80 bf16 d64 probe_grid"), &args, NULL), FA_UNSUPPORTED,
                 "65536|65535");
}

static int is_hopper_or_later(void) {
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  expect_ok(fa_context_info_get(&info, context));
  return info.arch >= 90;
}

static void clusters_and_programmatic_launches_run_in_order(void **state) {
  (void)state;
  if (!is_hopper_or_later()) {
    printf("SKIP: clusters need compute capability 9.0\n");
    skip();
  }
  const fa_kernel *kernel = get("fwd sm80 bf16 d64 probe_cluster");
  fa_args args = make_args();
  args.seqlen_q = args.seqlen_k = SEQLEN - 1; /* the grid in whole clusters */
  CUstream stream = new_stream();
  for (int i = 0; i < 50; ++i) expect_ok(fa_launch(kernel, &args, stream));
  expect_ok(fa_memory_copy(context, read_lse, lse, sizeof read_lse, stream));
  for (int i = 0; i < BATCH * HEADS * (SEQLEN - 1); ++i)
    if (read_lse[i] != SEQLEN - 1 + 0.5f) fail_msg("row %d: %g", i, (double)read_lse[i]);
  expect_cu(gpu.StreamDestroy(stream));
}

static void tensor_maps_are_encoded(void **state) {
  (void)state;
  if (!is_hopper_or_later()) {
    printf("SKIP: tensor maps need compute capability 9.0\n");
    skip();
  }
  fa_args args = make_args();
  expect_cu(gpu.CtxSetCurrent(primary));
  set(Q, 0x1234, NULL);
  expect_ok(fa_launch(get("fwd sm80 bf16 d64 probe_map"), &args, NULL));
  expect_tensor("o", tensors[O], 0x1234, NULL);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static void a_second_context_reads_the_disk(void **state) {
  (void)state;
  fa_context *second;
  const fa_kernel *kernel;
  fa_kernel_info built = FA_KERNEL_INFO_INIT, read = FA_KERNEL_INFO_INIT;
  expect_ok(fa_kernel_info_get(&built, get("bwd sm80 bf16 d64")));
  expect_ok(try_context(&second, 1, NULL));
  expect_ok(try_kernel(&kernel, second, "bwd sm80 bf16 d64"));
  expect_ok(fa_kernel_info_get(&read, kernel));
  assert_int_equal(built.origin, FA_BUILT);
  assert_int_equal(read.origin, FA_FROM_DISK);
  assert_true(read.render_ms == 0 && read.compile_ms == 0);
  assert_in_range(read.registers, 8, 255);
  assert_int_equal(read.registers, built.registers);
  printf("built: render %.1f, NVRTC %.1f, load %.2f ms; from disk: load %.2f ms\n", built.render_ms,
         built.compile_ms, built.load_ms, read.load_ms);
  fa_context_destroy(second);
}

static double microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* The plan of a problem of one row, as fa_launch makes it from one_row(). */
static void plan_one_row(fa_plan *plan, const fa_kernel *kernel) {
  fa_problem problem = {.batch = 1,
                        .heads_q = 1,
                        .heads_kv = 1,
                        .seqlen_q = 1,
                        .seqlen_k = 1,
                        .softmax_scale = 1,
                        .processors = 1,
                        .lse = lse};
  problem.q.data = tensors[Q];
  problem.o.data = tensors[O];
  kernel->plan(&problem, plan);
}

static fa_args one_row(void) {
  fa_args args = make_args();
  args.batch = args.heads_q = args.heads_kv = args.seqlen_q = args.seqlen_k = 1;
  return args;
}

/* fa_launch beside the driver's own launch of the same block; both only enqueue. */
static void a_launch_costs_little_more_than_the_drivers(void **state) {
  (void)state;
  enum { LAUNCHES = 500, ROUNDS = 20 };
  const fa_kernel *kernel = get("fwd sm80 bf16 d64");
  const cuda_code *code = kernel->device_code;
  const driver *cu = ((cuda_device *)context->device)->cu;
  CUstream stream = new_stream();
  fa_args args = one_row();
  fa_plan plan;
  plan_one_row(&plan, kernel);
  void *parameters[] = {plan.steps[0].args};
  CUlaunchConfig config = {.gridDimX = 1,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = 32,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .hStream = stream};
  double ours = INFINITY, bare = INFINITY;
  for (int round = 0; round < ROUNDS; ++round) {
    double begin = microseconds();
    for (int i = 0; i < LAUNCHES; ++i)
      cu->LaunchKernelEx(&config, code->functions[0].function, parameters, NULL);
    double middle = microseconds();
    for (int i = 0; i < LAUNCHES; ++i) fa_launch(kernel, &args, stream);
    double end = microseconds();
    expect_cu(cu->StreamSynchronize(stream));
    bare = fmin(bare, (middle - begin) / LAUNCHES);
    ours = fmin(ours, (end - middle) / LAUNCHES);
  }
  expect_ok(fa_launch(kernel, &args, stream));
  printf("a launch: %.2f us, the driver's own %.2f us\n", ours, bare);
  assert_true(ours < bare + 20);
  expect_cu(gpu.StreamDestroy(stream));
}

static void a_kernel_that_is_there_is_found_in_no_time(void **state) {
  (void)state;
  enum { LOOKUPS = 200000, ROUNDS = 7 };
  const fa_kernel *kernel = get("bwd sm80 f16 d64"), *again;
  fa_spec spec = FA_SPEC_INIT;
  double least = INFINITY, most = 0;
  expect_ok(fa_spec_parse(&spec, "bwd sm80 f16 d64"));
  for (int round = 0; round < ROUNDS; ++round) {
    double begin = microseconds();
    for (int i = 0; i < LOOKUPS; ++i) fa_get_kernel(&again, context, &spec);
    double nanoseconds = (microseconds() - begin) * 1e3 / LOOKUPS;
    least = fmin(least, nanoseconds);
    most = fmax(most, nanoseconds);
  }
  assert_ptr_equal(again, kernel);
  printf("fa_get_kernel of a kernel that is there: %.0f to %.0f ns\n", least, most);
  assert_true(least < 100);
}

/* A program that waits after every step must not pay for its workspace anew each time. */
static void waiting_for_a_stream_keeps_the_workspace(void **state) {
  (void)state;
  enum { CALLS = 200 };
  const driver *cu = ((cuda_device *)context->device)->cu;
  CUstream stream = new_stream();
  fa_args args = make_args();
  void *workspace;
  double with[2]; /* the library's workspace, and the caller's */
  expect_ok(fa_memory_alloc(&workspace, context, 1 << 20));
  for (int given = 0; given < 2; ++given) {
    args.workspace = given ? workspace : NULL;
    args.workspace_size = given ? 1 << 20 : 0;
    expect_ok(fa_backward(context, &args, stream));
    expect_cu(cu->StreamSynchronize(stream));
    double begin = microseconds();
    for (int i = 0; i < CALLS; ++i) {
      expect_ok(fa_backward(context, &args, stream));
      expect_cu(cu->StreamSynchronize(stream));
    }
    with[given] = (microseconds() - begin) / CALLS;
  }
  printf("a backward that is waited for: %.1f us, with the caller's workspace %.1f us\n", with[0],
         with[1]);
  assert_true(with[0] < with[1] + 50);
  fa_memory_free(context, workspace);
  expect_cu(gpu.StreamDestroy(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_stays_on_the_callers_stream),
      cmocka_unit_test(the_legacy_and_the_threads_own_stream_work),
      cmocka_unit_test(the_threads_context_stays_as_found),
      cmocka_unit_test(a_context_may_be_given),
      cmocka_unit_test(a_captured_call_replays),
      cmocka_unit_test(a_cold_kernel_leaves_the_capture_as_it_was),
      cmocka_unit_test(memory_of_each_kind_is_taken_or_named),
      cmocka_unit_test(another_devices_memory_is_refused),
      cmocka_unit_test(shared_memory_is_up_to_the_devices_limit),
      cmocka_unit_test(a_grid_beyond_the_limit_is_refused),
      cmocka_unit_test(clusters_and_programmatic_launches_run_in_order),
      cmocka_unit_test(tensor_maps_are_encoded),
      cmocka_unit_test(a_second_context_reads_the_disk),
      cmocka_unit_test(a_launch_costs_little_more_than_the_drivers),
      cmocka_unit_test(a_kernel_that_is_there_is_found_in_no_time),
      cmocka_unit_test(waiting_for_a_stream_keeps_the_workspace),
  };
  const driver *cu;
  if (driver_open(&cu) || !device_open(&gpu)) {
    printf("SKIP test_cuda_runtime: %s\n", fa_error_message());
    return 77;
  }
  return cmocka_run_group_tests_name("cuda runtime", tests, open_device, close_device);
}
