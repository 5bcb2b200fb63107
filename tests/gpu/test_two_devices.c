/* test_two_devices.c: one process, two GPUs: contexts, kernels, memory and streams of each, over one
   disk cache, one after the other and from two threads at once. Gradients are deterministic, so
   that both devices must give the same bits. */
#include "device.h"
#include "numeric/dense.h"
#include "runtime/context.h"
#include "runtime/cuda_device.h"
#include "support/overlay.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, SEQLEN_Q = 130, SEQLEN_K = 200, HEADS = 6 };

static const char *const cases[] = {
    "bwd cpu bf16 d128 gqa2 causal det",
    "bwd cpu f16 d64 det",
    "bwd cpu bf16 d72 v40 gqa3 causal det",
};
static const char *const cold_case = "bwd cpu f16 d64 det";
static const uint64_t seed = 47;

static device_functions gpu;
static fa_context *contexts[DEVICES];

static cuda_device *device_of(fa_context *context) {
  return context->device;
}

static void make_current(fa_context *context) {
  expect_cu(gpu.CtxSetCurrent(device_of(context)->current));
}

/* ---- Two contexts ---------------------------------------------------------------------------- */

/* A context of each device; cache_dir NULL is the default of the environment. */
static fa_status open_pair(fa_context *out[DEVICES], const char *cache_dir) {
  fa_options options = FA_OPTIONS_INIT;
  fa_status status = FA_OK;
  options.backend = FA_CUDA;
  options.template_dir = support_overlay();
  options.cache_dir = cache_dir;
  for (int i = 0; !status && i < DEVICES; ++i) {
    options.device = i + 1;
    status = fa_context_create(&out[i], &options);
  }
  return status;
}

static void close_pair(fa_context *pair[DEVICES]) {
  for (int i = 0; i < DEVICES; ++i) fa_context_destroy(pair[i]);
}

static void skip_all(const char *reason) {
  printf("SKIP test_two_devices: %s\n", reason);
  exit(77);
}

static int begin(void **state) {
  support_begin(state);
  if (!device_open(&gpu)) fail_msg("%s", "libcuda.so.1 cannot be opened");
  int count = 0;
  expect_cu(device_of(support_context())->cu->DeviceGetCount(&count));
  if (count < DEVICES) skip_all("there is one GPU");
  expect_ok(open_pair(contexts, NULL));
  if (device_of(contexts[0])->arch != device_of(contexts[1])->arch)
    skip_all("the first two GPUs are of different architectures");
  return 0;
}

static int end(void **state) {
  close_pair(contexts);
  return support_end(state);
}

/* ---- Work in threads ------------------------------------------------------------------------- */

/* cmocka's assertions end a test on its own thread only: a thread keeps what it was told. */
typedef struct report {
  fa_status status;
  char message[512];
} report;

static void note(report *to, fa_status status) {
  if (to->status || !status) return;
  to->status = status;
  snprintf(to->message, sizeof to->message, "%s", fa_error_message());
}

static void expect_done(const report *from) {
  if (from->status) fail_msg("%s: %s", fa_status_name(from->status), from->message);
}

/* Starts a thread for each element of `tasks` and waits for all. */
static void in_two_threads(void *(*run)(void *task), void *tasks, size_t bytes) {
  pthread_t threads[DEVICES];
  for (int i = 0; i < DEVICES; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, run, (char *)tasks + (size_t)i * bytes), 0);
  for (int i = 0; i < DEVICES; ++i) pthread_join(threads[i], NULL);
}

/* ---- Results --------------------------------------------------------------------------------- */

static trial_options trial_of_case(const char *words) {
  trial_options options = trial_of(words, 2, HEADS, SEQLEN_Q, SEQLEN_K);
  options.with_dlse = 1;
  return options;
}

static void one_thread_uses_the_devices_in_turn(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    const trial_options options = trial_of_case(cases[i]);
    trial_result first, next;
    run_trial_on(&first, contexts[0], &options);
    assert_result_right(&options, &first);
    for (int turn = 1; turn <= 3; ++turn) {
      run_trial_on(&next, contexts[turn % DEVICES], &options);
      assert_result_right(&options, &next);
      assert_same_bits(&next, &first);
      trial_free(&next);
    }
    trial_free(&first);
  }
}

enum { TURNS = 6 };

/* Trials on one device and the other by turns. */
typedef struct trial_task {
  const trial_options *options;
  int device; /* of the first turn */
  trial_result results[TURNS];
  report told;
} trial_task;

static void *run_trials(void *given) {
  trial_task *task = given;
  for (int i = 0; i < TURNS; ++i)
    note(&task->told,
         trial_run(&task->results[i], contexts[(task->device + i) % DEVICES], task->options));
  return NULL;
}

static void two_threads_use_both_devices_at_once(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    const trial_options options = trial_of_case(cases[i]);
    trial_task tasks[DEVICES] = {{.options = &options, .device = 0},
                                 {.options = &options, .device = 1}};
    in_two_threads(run_trials, tasks, sizeof *tasks);
    for (int thread = 0; thread < DEVICES; ++thread) {
      expect_done(&tasks[thread].told);
      for (int turn = 0; turn < TURNS; ++turn) {
        assert_result_right(&options, &tasks[thread].results[turn]);
        assert_same_bits(&tasks[thread].results[turn], &tasks[0].results[0]);
      }
    }
    for (int turn = 0; turn < DEVICES * TURNS; ++turn)
      trial_free(&tasks[turn / TURNS].results[turn % TURNS]);
  }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The addresses that a launch is given. */
static const struct {
  const char *field;
  size_t offset; /* in fa_args */
} addresses[] = {
    {"q", offsetof(fa_args, q.data)},
    {"k", offsetof(fa_args, k.data)},
    {"v", offsetof(fa_args, v.data)},
    {"o", offsetof(fa_args, o.data)},
    {"lse", offsetof(fa_args, lse)},
    {"dout", offsetof(fa_args, dout.data)},
    {"dlse", offsetof(fa_args, dlse)},
    {"dq", offsetof(fa_args, dq.data)},
    {"dk", offsetof(fa_args, dk.data)},
    {"dv", offsetof(fa_args, dv.data)},
    {"workspace", offsetof(fa_args, workspace)},
};

static void expect_far_refused(const dense *here, const dense *far, const char *words) {
  for (size_t i = 0; i < COUNT_OF(addresses); ++i) {
    fa_args args = here->args;
    char wanted[96];
    memcpy((char *)&args + addresses[i].offset, (const char *)&far->args + addresses[i].offset,
           sizeof(void *));
    snprintf(wanted, sizeof wanted, "%s: address|%s", addresses[i].field, words);
    expect_refused(fa_backward(here->context, &args, NULL), FA_INVALID, wanted);
  }
}

static void memory_of_the_other_device_is_refused(void **state) {
  (void)state;
  const size_t workspace_bytes = 16 << 20;
  dense problems[DEVICES];
  for (int i = 0; i < DEVICES; ++i) {
    dense_create_on(&problems[i], contexts[i], cases[0], 2, HEADS, SEQLEN_Q, SEQLEN_K);
    problems[i].args.dlse = problems[i].device[TRIAL_DLSE];
    expect_ok(fa_memory_alloc(&problems[i].args.workspace, contexts[i], workspace_bytes));
    problems[i].args.workspace_size = workspace_bytes;
  }
  expect_far_refused(&problems[0], &problems[1], "device 1|on 0");
  expect_far_refused(&problems[1], &problems[0], "device 0|on 1");
  for (int i = 0; i < DEVICES; ++i) {
    dense_launch(contexts[i], &problems[i], FA_BWD, NULL); /* with its own it runs */
    fa_memory_free(contexts[i], problems[i].args.workspace);
    dense_free(&problems[i]);
  }
}

/* ---- Streams --------------------------------------------------------------------------------- */

enum { LINKS = 6, BUSY_ROUNDS = 100 };

static const size_t busy_bytes = (size_t)256 << 20;

/* O becomes the next link's Q: a launch that does not wait for the one before shows in the bits. */
static void launch_link(const dense *problem, int link, CUstream stream) {
  dense now = *problem;
  if (link % 2) {
    now.args.q = problem->args.o;
    now.args.o = problem->args.q;
  }
  dense_launch(problem->context, &now, FA_FWD, stream);
  dense_launch(problem->context, &now, FA_BWD, stream);
}

static void create_chain(dense *out, fa_context *context) {
  dense_create_on(out, context, cases[0], 2, HEADS, SEQLEN_Q, SEQLEN_Q);
  dense_fill_inputs(out, dense_normal, &seed);
  out->args.dlse = out->device[TRIAL_DLSE];
  dense_upload(out);
}

/* A chain on a stream that is busy for some milliseconds before Q is what it should be. */
static void begin_chain(dense *out, CUstream *stream, void **busy, fa_context *context) {
  create_chain(out, context);
  size_t bytes = dense_bytes(out, TRIAL_Q);
  make_current(context);
  expect_ok(fa_memory_alloc(busy, context, busy_bytes));
  expect_ok(fa_memory_copy(context, out->device[TRIAL_DQ], out->memory[TRIAL_Q], bytes, NULL));
  expect_cu(gpu.MemsetD8Async((uintptr_t)out->device[TRIAL_Q], 0xff, bytes, NULL));
  expect_cu(gpu.CtxSynchronize());
  expect_cu(gpu.StreamCreate(stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < BUSY_ROUNDS; ++i)
    expect_cu(gpu.MemsetD8Async((uintptr_t)*busy, (unsigned char)i, busy_bytes, *stream));
  expect_cu(device_of(context)->cu->MemcpyAsync((uintptr_t)out->device[TRIAL_Q],
                                                (uintptr_t)out->device[TRIAL_DQ], bytes, *stream));
}

static void assert_same_chain(const dense *got, const dense *wanted) {
  static const trial_tensor outputs[] = {TRIAL_O, TRIAL_LSE, TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  for (size_t i = 0; i < COUNT_OF(outputs); ++i) assert_same_bytes(got, wanted, outputs[i]);
}

/* Both devices are kept busy at once, each launch while the other device is the thread's current. */
static void each_device_has_streams_of_its_own(void **state) {
  (void)state;
  dense wanted, chains[DEVICES];
  CUstream streams[DEVICES];
  void *busy[DEVICES];
  create_chain(&wanted, contexts[0]);
  for (int link = 0; link < LINKS; ++link) {
    launch_link(&wanted, link, NULL);
    dense_download(&wanted, NULL); /* waits */
  }
  for (int i = 0; i < DEVICES; ++i) begin_chain(&chains[i], &streams[i], &busy[i], contexts[i]);
  for (int link = 0; link < LINKS; ++link)
    for (int i = 0; i < DEVICES; ++i) {
      make_current(contexts[!i]);
      launch_link(&chains[i], link, streams[i]);
    }
  for (int i = 0; i < DEVICES; ++i) {
    dense_download(&chains[i], streams[i]);
    assert_same_chain(&chains[i], &wanted);
    make_current(contexts[i]);
    expect_cu(gpu.StreamDestroy(streams[i]));
    fa_memory_free(contexts[i], busy[i]);
    dense_free(&chains[i]);
  }
  dense_free(&wanted);
}

static void a_stream_of_the_other_device_is_refused(void **state) {
  (void)state;
  dense problem;
  CUstream stream;
  create_chain(&problem, contexts[0]);
  make_current(contexts[1]);
  expect_cu(gpu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  assert_int_equal(fa_forward(contexts[0], &problem.args, stream), FA_DRIVER);
  assert_int_equal(fa_backward(contexts[0], &problem.args, stream), FA_DRIVER);
  launch_link(&problem, 0, NULL); /* nothing of it stays behind */
  dense_download(&problem, NULL);
  expect_cu(gpu.StreamDestroy(stream));
  dense_free(&problem);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef struct kernel_task {
  fa_context *context;
  pthread_barrier_t *together; /* NULL = at once */
  const fa_kernel *kernel;
  report told;
} kernel_task;

static void *get_cold_case(void *given) {
  kernel_task *task = given;
  fa_spec spec = FA_SPEC_INIT;
  char words[FA_NAME_MAX];
  target_words(words, cold_case);
  note(&task->told, fa_spec_parse(&spec, words));
  if (task->together) pthread_barrier_wait(task->together);
  note(&task->told, fa_get_kernel(&task->kernel, task->context, &spec));
  return NULL;
}

/* How many of both kernels were built, and fails unless the others came from the disk. */
static int count_built(const kernel_task tasks[DEVICES]) {
  int built = 0;
  for (int i = 0; i < DEVICES; ++i) {
    fa_kernel_info info = FA_KERNEL_INFO_INIT;
    expect_done(&tasks[i].told);
    expect_ok(fa_kernel_info_get(&info, tasks[i].kernel));
    built += info.origin == FA_BUILT;
    if (info.origin != FA_BUILT) assert_int_equal(info.origin, FA_FROM_DISK);
  }
  assert_ptr_not_equal(tasks[0].kernel, tasks[1].kernel);
  return built;
}

static void both_devices_share_one_compilation(void **state) {
  (void)state;
  for (int at_once = 0; at_once < 2; ++at_once) {
    fa_context *pair[DEVICES];
    overlay cache_folder;
    pthread_barrier_t together;
    overlay_create(&cache_folder);
    expect_ok(open_pair(pair, cache_folder.path));
    pthread_barrier_init(&together, NULL, DEVICES);
    kernel_task tasks[DEVICES] = {{.context = pair[0]}, {.context = pair[1]}};
    if (at_once) tasks[0].together = tasks[1].together = &together;
    if (at_once) in_two_threads(get_cold_case, tasks, sizeof *tasks);
    for (int i = 0; !at_once && i < DEVICES; ++i) get_cold_case(&tasks[i]);
    assert_int_equal(count_built(tasks), 1);
    pthread_barrier_destroy(&together);
    close_pair(pair);
    overlay_remove(&cache_folder);
  }
}

/* The driver's table, with a count in the place of one function. */
static const driver *real;
static int limits_set;

static CUresult count_limit(CUfunction function, int attribute, int value) {
  ++limits_set;
  return real->FuncSetAttribute(function, attribute, value);
}

static void assert_limits_raised(const fa_kernel *kernel) {
  const cuda_code *code = kernel->device_code;
  make_current(kernel->context);
  for (int i = 0; i < code->num_functions; ++i) {
    int limit = 0;
    expect_cu(real->FuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     code->functions[i].function));
    assert_int_equal(limit, code->functions[i].dynamic_limit);
  }
}

static void limits_of_shared_memory_are_raised_once_a_function_and_device(void **state) {
  (void)state;
  static const int64_t seqlens[] = {1, 300, 1, 17};
  fa_context *pair[DEVICES];
  driver counting;
  expect_ok(open_pair(pair, NULL));
  real = device_of(pair[0])->cu;
  counting = *real;
  counting.FuncSetAttribute = count_limit;
  limits_set = 0;
  for (int i = 0; i < DEVICES; ++i) {
    kernel_task task = {.context = pair[i]};
    int before = limits_set;
    device_of(pair[i])->cu = &counting;
    get_cold_case(&task);
    expect_done(&task.told);
    assert_int_equal(limits_set - before, ((cuda_code *)task.kernel->device_code)->num_functions);
    assert_limits_raised(task.kernel);
  }
  int loaded = limits_set;
  for (size_t i = 0; i < DEVICES * COUNT_OF(seqlens); ++i) {
    kernel_task task = {.context = pair[i % DEVICES]};
    dense problem;
    dense_create_on(&problem, task.context, cold_case, 1, HEADS, seqlens[i / DEVICES], 200);
    dense_launch(task.context, &problem, FA_BWD, NULL);
    dense_download(&problem, NULL);
    dense_free(&problem);
    get_cold_case(&task);
    assert_limits_raised(task.kernel);
  }
  assert_int_equal(limits_set, loaded);
  close_pair(pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_thread_uses_the_devices_in_turn),
      cmocka_unit_test(two_threads_use_both_devices_at_once),
      cmocka_unit_test(memory_of_the_other_device_is_refused),
      cmocka_unit_test(each_device_has_streams_of_its_own),
      cmocka_unit_test(a_stream_of_the_other_device_is_refused),
      cmocka_unit_test(both_devices_share_one_compilation),
      cmocka_unit_test(limits_of_shared_memory_are_raised_once_a_function_and_device),
  };
  if (on_gpu()) return cmocka_run_group_tests(tests, begin, end);
  printf("SKIP test_two_devices: FAGEN_TEST_TARGET names no GPU target\n");
  return 77;
}
