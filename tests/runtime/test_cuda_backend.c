/* test_cuda_backend.c: devices, contexts, kernels, threads and forks of the CUDA backend, seen by a
   driver that records and a compiler that takes no time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_fixture.h"
#include "runtime/context.h"
#include "runtime/cuda_device.h"

/* ---- Devices and contexts -------------------------------------------------------------------- */

static int arch_of(fa_context *of) {
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  expect_ok(fa_context_info_get(&info, of));
  assert_int_equal(info.backend, FA_CUDA);
  return info.arch;
}

static void expect_arch(int device, CUcontext given, int arch) {
  fa_context *opened = open_context(device, given);
  assert_int_equal(arch_of(opened), arch);
  fa_context_destroy(opened);
}

static void the_device_is_chosen_as_the_header_says(void **state) {
  (void)state;
  expect_arch(0, NULL, 90); /* none current: the first */
  expect_arch(1, NULL, 90);
  expect_arch(2, NULL, 86);
  expect_arch(3, NULL, 80);
  fake_make_current(&fake.primary[2]);
  expect_arch(0, NULL, 80);
  expect_arch(2, NULL, 86);
  struct CUctx_st own = {.device = 1};
  expect_arch(0, &own, 86);
  assert_ptr_equal(fake_current(), &fake.primary[2]);
  for (int i = 0; i < FAKE_DEVICES; ++i) assert_int_equal(fake.primary[i].holders, i == 0);
  assert_int_equal(own.holders, 0);
  assert_int_equal(fake.pools, 1); /* of the context that all tests share */

  fa_context *none;
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CUDA;
  options.device = 4;
  expect_refused(fa_context_create(&none, &options), FA_INVALID, "device: 4|0 to 3");
  options.cu_context = &own;
  expect_refused(fa_context_create(&none, &options), FA_INVALID, "device: 4|cu_context");
  fake.devices[0].major = 7;
  options = (fa_options)FA_OPTIONS_INIT;
  options.device = 1;
  expect_refused(fa_context_create(&none, &options), FA_UNSUPPORTED, "compute capability 7.0|8.x");
}

static void the_threads_context_stays_as_found(void **state) {
  (void)state;
  struct CUctx_st other = {.device = 1};
  const CUcontext found[] = {NULL, &fake.primary[0], &other};
  fa_args args = make_args();
  for (size_t i = 0; i < COUNT_OF(found); ++i) {
    void *memory;
    fa_spec spec = FA_SPEC_INIT;
    const fa_kernel *kernel;
    char words[32];
    fake_make_current(found[i]);
    snprintf(words, sizeof words, "fwd sm80 bf16 d%zu", 72 + 8 * i);
    expect_ok(fa_spec_parse(&spec, words));
    expect_ok(fa_get_kernel(&kernel, context, &spec));
    expect_ok(fa_forward(context, &args, NULL));
    expect_ok(fa_backward(context, &args, NULL));
    expect_ok(fa_memory_alloc(&memory, context, 100));
    expect_ok(fa_memory_copy(context, memory, workspace, 100, NULL));
    fa_memory_free(context, memory);
    args.lse = NULL;
    assert_int_equal(fa_forward(context, &args, NULL), FA_INVALID);
    args.lse = lse;
    assert_ptr_equal(fake_current(), found[i]);
  }
  for (int i = 0; i < fake.num_launches; ++i)
    assert_ptr_equal(fake.launches[i].current, &fake.primary[0]);
}

static void a_kernel_is_of_one_context(void **state) {
  (void)state;
  fa_context *second = open_context(2, NULL);
  const fa_kernel *kernel;
  fa_spec spec = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, "fwd sm80 bf16 d64"));
  expect_ok(fa_get_kernel(&kernel, second, &spec));
  assert_ptr_not_equal(kernel, fwd);
  assert_string_equal(strstr(fa_kernel_source(kernel), "_cc86_") ? "cc86" : "other", "cc86");
  assert_non_null(strstr(fa_kernel_source(fwd), "_cc90_"));
  fa_args args = make_args();
  expect_refused(fa_launch(kernel, &args, NULL), FA_INVALID, "q: address|CUDA device 0|is on 1");
  expect_nothing_done();
  fa_context_destroy(second);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void code_that_the_driver_refuses_is_told(void **state) {
  (void)state;
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  fake.module_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  expect_ok(fa_spec_parse(&spec, "fwd sm80 f16 d64"));
  expect_refused(fa_get_kernel(&kernel, context, &spec), FA_DRIVER, "driver|CUDA 13.0|NVRTC 13.0");
  assert_null(strstr(fa_error_message(), "newer"));
  assert_null(kernel);
  fake.module_result = 0; /* a failure is not kept */
  expect_ok(fa_get_kernel(&kernel, context, &spec));
}

static void an_nvrtc_newer_than_the_driver_is_told(void **state) {
  (void)state;
  cuda_device *device = context->device;
  const driver *real = device->cu;
  driver older = *real;
  const fa_kernel *kernel;
  fa_spec spec = FA_SPEC_INIT;
  older.version = 12040;
  device->cu = &older;
  expect_ok(fa_spec_parse(&spec, "fwd sm80 f16 d64"));
  fake.module_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  expect_refused(fa_get_kernel(&kernel, context, &spec), FA_DRIVER,
                 "driver, of CUDA 12.4|NVRTC 13.0|no newer than the driver|FA_NVRTC");
  expect_nothing_done();
  fake.module_result = 0; /* an old driver that takes it nevertheless is not stopped */
  expect_ok(fa_get_kernel(&kernel, context, &spec));
  device->cu = real;
}

static void an_entry_that_is_not_there_is_told(void **state) {
  (void)state;
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  int loads = fake.module_loads;
  expect_ok(fa_spec_parse(&spec, "fwd sm80 f16 d64 probe_missing"));
  expect_refused(fa_get_kernel(&kernel, context, &spec), FA_COMPILE, "_absent");
  assert_int_equal(fake.module_loads, loads);
}

static void a_plan_beyond_its_room_is_told(void **state) {
  (void)state;
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  char words[64];
  snprintf(words, sizeof words, "plan of %d steps|at most %d", FA_PLAN_MAX_STEPS + 1,
           FA_PLAN_MAX_STEPS);
  expect_ok(fa_spec_parse(&spec, "fwd sm80 f16 d64 probe_steps"));
  expect_refused(fa_get_kernel(&kernel, context, &spec), FA_TEMPLATE, words);
}

static void specs_of_other_devices_are_refused(void **state) {
  (void)state;
  static const char *const words[] = {"fwd cpu bf16 d64", "fwd sm80 cc100 bf16 d64"};
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    fa_spec spec = FA_SPEC_INIT;
    const fa_kernel *kernel;
    expect_ok(fa_spec_parse(&spec, words[i]));
    assert_int_equal(fa_get_kernel(&kernel, context, &spec), FA_UNSUPPORTED);
  }
}

static void everything_is_given_back(void **state) {
  (void)state;
  fa_context *second = open_context(2, NULL);
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  int unloads = fake.module_unloads;
  expect_ok(fa_spec_parse(&spec, "fwd sm80 bf16 d64"));
  expect_ok(fa_get_kernel(&kernel, second, &spec));
  assert_int_equal(fake.primary[1].holders, 1);
  fa_context_destroy(second);
  assert_int_equal(fake.primary[1].holders, 0);
  assert_int_equal(fake.module_unloads - unloads, 1);
}

/* ---- Threads and processes ------------------------------------------------------------------- */

enum { THREADS = 16 };

static void *get_in_thread(void *to) {
  fa_spec spec = FA_SPEC_INIT;
  fa_spec_parse(&spec, "fwd sm80 f16 d128");
  fa_get_kernel(to, context, &spec);
  return NULL;
}

static void threads_that_ask_for_one_kernel_load_it_once(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  const fa_kernel *kernels[THREADS];
  int loads = fake.module_loads;
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, get_in_thread, &kernels[i]);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; ++i) assert_ptr_equal(kernels[i], kernels[0]);
  assert_non_null(kernels[0]);
  assert_int_equal(fake.module_loads - loads, 1);
}

/* In a forked child: 0 when all is as it should be. */
static int use_after_fork(void) {
  fa_args args = make_args();
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  fa_context *own;
  fa_options options = FA_OPTIONS_INIT;
  alarm(20); /* waiting for a lock that no thread holds any more is the fault this is for */
  if (fa_launch(fwd, &args, NULL) != FA_UNSUPPORTED) return 1;
  if (!strstr(fa_error_message(), "fork")) return 2;
  fa_spec_parse(&spec, "fwd sm80 f16 d256");
  if (fa_get_kernel(&kernel, context, &spec) != FA_UNSUPPORTED) return 3;
  options.backend = FA_CUDA;
  if (fa_context_create(&own, &options) != FA_UNSUPPORTED) return 4;
  fa_spec_parse(&spec, "fwd cpu f32 d64");
  if (fa_check(&spec, NULL, 0)) return 5;
  options.backend = FA_CPU;
  options.threads = 1;
  if (fa_context_create(&own, &options)) return 6;
  if (fa_get_kernel(&kernel, own, &spec)) return 7;
  fa_context_destroy(own);
  fa_context_destroy(context);
  return fake.num_launches ? 8 : 0;
}

static void *build_in_thread(void *unused) {
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  (void)unused;
  fa_spec_parse(&spec, "fwd sm80 f16 d256");
  fa_get_kernel(&kernel, context, &spec);
  return NULL;
}

/* The child is made while a thread builds the very kernel that it will ask for. */
static void a_forked_child_is_told(void **state) {
  (void)state;
  int end = 0;
  pthread_t builder;
  setenv("FAKE_NVRTC_MS", "300", 1);
  pthread_create(&builder, NULL, build_in_thread, NULL);
  usleep(100000);
  pid_t pid = fork();
  if (!pid) _exit(use_after_fork());
  waitpid(pid, &end, 0);
  pthread_join(builder, NULL);
  unsetenv("FAKE_NVRTC_MS");
  if (!WIFEXITED(end) || WEXITSTATUS(end)) fail_msg("the child ended with %#x", (unsigned)end);
  fa_args args = make_args();
  expect_ok(fa_launch(fwd, &args, NULL)); /* the parent goes on */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_DEVICE(the_device_is_chosen_as_the_header_says),
      ON_DEVICE(the_threads_context_stays_as_found),
      ON_DEVICE(a_kernel_is_of_one_context),
      ON_DEVICE(code_that_the_driver_refuses_is_told),
      ON_DEVICE(an_nvrtc_newer_than_the_driver_is_told),
      ON_DEVICE(an_entry_that_is_not_there_is_told),
      ON_DEVICE(a_plan_beyond_its_room_is_told),
      ON_DEVICE(specs_of_other_devices_are_refused),
      ON_DEVICE(everything_is_given_back),
      ON_DEVICE(threads_that_ask_for_one_kernel_load_it_once),
      ON_DEVICE(a_forked_child_is_told),
  };
  setenv("FA_CACHE_DIR", "", 1); /* contexts that are opened without options.cache_dir */
  setenv("FA_NVRTC", FAKE_NVRTC, 1);
  return cmocka_run_group_tests_name("cuda backend", tests, expect_to_end, NULL);
}
