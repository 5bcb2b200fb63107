/* test_no_gpu.c: what a program is told where there is no driver, no NVRTC or no device for it. The
   driver is fake_cuda.c, found by the loader in the place of the machine's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child_build.h"
#include "runtime/cuda_arch.h"
#include "support/expect.h"

/* Runs this program again, where the loader finds the driver in `folder` and it is of that kind. */
static int run_again(const char *kind, const char *folder) {
  pid_t pid = fork();
  if (!pid) {
    setenv("LD_LIBRARY_PATH", folder, 1);
    setenv("FAKE_CUDA", kind, 1);
    setenv("FA_CACHE_DIR", "", 1);
    execl("/proc/self/exe", "test_no_gpu", kind, (char *)NULL);
    _exit(99);
  }
  int end = 0;
  waitpid(pid, &end, 0);
  return WIFEXITED(end) ? WEXITSTATUS(end) : -1;
}

/* ---- In the process that runs again ---------------------------------------------------------- */

static void check(fa_status got, fa_status wanted, const char *words) {
  int right = got == wanted;
  char part[128];
  for (const char *at = words; right && *at; at += strcspn(at, "|"), at += *at == '|') {
    snprintf(part, sizeof part, "%.*s", (int)strcspn(at, "|"), at);
    right = strstr(fa_error_message(), part) != NULL;
  }
  if (right) return;
  printf("got %s, wanted %s with '%s': %s\n", fa_status_name(got), fa_status_name(wanted), words,
         fa_error_message());
  exit(1);
}

static fa_status open_context(int backend, int device, const char *library, int *got) {
  fa_context *context;
  fa_options options = FA_OPTIONS_INIT;
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  options.backend = backend;
  options.device = device;
  options.nvrtc = library;
  fa_status status = fa_context_create(&context, &options);
  if (!status) status = fa_context_info_get(&info, context);
  *got = info.backend;
  fa_context_destroy(context);
  return status;
}

/* Asked for by name, a GPU that cannot be used is an error; the best that there is, is the
   processor. */
static void check_refusal(const char *library, fa_status wanted, const char *words) {
  int got;
  check(open_context(FA_CUDA, 0, library, &got), wanted, words);
  check(open_context(FA_BACKEND_BEST, 1, library, &got), wanted, words);
  check(open_context(FA_BACKEND_BEST, 0, library, &got), FA_OK, "");
  if (got == FA_CPU) return;
  printf("the best backend is %d, and not the processor\n", got);
  exit(1);
}

static int as_told(const char *kind) {
  int got;
  if (!strcmp(kind, "absent")) check_refusal(NULL, FA_NO_DRIVER, "no CUDA driver|libcuda.so.1");
  if (!strcmp(kind, "stub")) check_refusal(NULL, FA_NO_DRIVER, "stub");
  if (!strcmp(kind, "old")) check_refusal(NULL, FA_NO_DRIVER, "CUDA 11.8|12.0");
  if (!strcmp(kind, "empty")) check_refusal(NULL, FA_NO_DRIVER, "no CUDA-capable device");
  if (!strcmp(kind, "driver")) {
    check_refusal("/nonexistent/libnvrtc.so", FA_NO_NVRTC, "/nonexistent/libnvrtc.so");
    check(open_context(FA_CUDA, 0, FAKE_NVRTC, &got), FA_OK, "");
    check(open_context(FA_BACKEND_BEST, 0, FAKE_NVRTC, &got), FA_OK, "");
    if (got != FA_CUDA) return 1;
  }
  return 0;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void expect_kind(const char *kind, const char *folder) {
  int code = run_again(kind, folder);
  if (code) fail_msg("%s: exit code %d", kind, code);
}

static const char fakes[] = FAGEN_BINARY_DIR "/tests/fake";

static void a_missing_driver_is_told(void **state) {
  (void)state;
  if (!system("ldconfig -p 2>/dev/null | grep -q libcuda.so.1")) {
    printf("SKIP: this machine has a driver\n");
    skip();
  }
  expect_kind("absent", "/nonexistent");
}

static void the_toolkits_stub_is_no_driver(void **state) {
  (void)state;
  expect_kind("stub", fakes);
}

static void an_old_driver_is_told_its_version(void **state) {
  (void)state;
  expect_kind("old", fakes);
}

static void a_driver_without_device_is_told(void **state) {
  (void)state;
  expect_kind("empty", fakes);
}

static void a_missing_nvrtc_is_told(void **state) {
  (void)state;
  expect_kind("driver", fakes);
}

static void a_device_runs_the_highest_arch_below_it(void **state) {
  (void)state;
  static const struct {
    int major, minor, arch;
  } cases[] = {{8, 0, 80},   {8, 6, 86},   {8, 7, 86},   {8, 9, 89},  {9, 0, 90},
               {10, 0, 100}, {10, 3, 100}, {12, 0, 120}, {12, 1, 120}};
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    int arch;
    expect_ok(cuda_arch_of(&arch, cases[i].major, cases[i].minor));
    if (arch != cases[i].arch)
      fail_msg("%d.%d: %d, not %d", cases[i].major, cases[i].minor, arch, cases[i].arch);
  }
  static const int refused[][2] = {{7, 0}, {7, 5}, {11, 0}, {13, 0}};
  for (size_t i = 0; i < COUNT_OF(refused); ++i) {
    int arch;
    expect_refused(cuda_arch_of(&arch, refused[i][0], refused[i][1]), FA_UNSUPPORTED,
                   "compute capability|8.x");
  }
}

static void a_spec_is_completed_for_the_device(void **state) {
  (void)state;
  static const struct {
    const char *words;
    int device, sm90_present, target, arch; /* target 0: refused */
    const char *refusal;
  } cases[] = {
      {"fwd bf16 d64", 90, 1, FA_TARGET_SM90, 90, NULL},
      {"fwd bf16 d64", 90, 0, FA_TARGET_SM80, 90, NULL},
      {"fwd bf16 d64", 100, 1, FA_TARGET_SM80, 100, NULL},
      {"fwd sm80 bf16 d64", 86, 0, FA_TARGET_SM80, 86, NULL},
      {"fwd sm80 bf16 d64", 120, 0, FA_TARGET_SM80, 120, NULL},
      {"fwd sm80 bf16 d64 cc86", 89, 0, FA_TARGET_SM80, 86, NULL},
      {"fwd sm80 bf16 d64 cc89", 86, 0, 0, 0, "arch: cc89|cc86"},
      {"fwd sm80 bf16 d64 cc90", 100, 0, 0, 0, "arch: cc90|cc100"},
      {"fwd sm90 bf16 d64", 100, 1, 0, 0, "sm90|cc100"},
      {"fwd cpu bf16 d64", 90, 1, 0, 0, "cpu"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fa_spec spec = FA_SPEC_INIT;
    expect_ok(fa_spec_parse(&spec, cases[i].words));
    if (!cases[i].target) {
      expect_refused(cuda_arch_resolve(&spec, cases[i].device, cases[i].sm90_present),
                     FA_UNSUPPORTED, cases[i].refusal);
      continue;
    }
    expect_ok(cuda_arch_resolve(&spec, cases[i].device, cases[i].sm90_present));
    if (spec.target != cases[i].target || spec.arch != cases[i].arch)
      fail_msg("%s on %d: target %d, arch %d", cases[i].words, cases[i].device, spec.target,
               spec.arch);
  }
  fa_spec f32 = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&f32, "fwd f32 d64"));
  expect_refused(cuda_arch_resolve(&f32, 90, 1), FA_INVALID, "dtype|f32");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_missing_driver_is_told),
      cmocka_unit_test(the_toolkits_stub_is_no_driver),
      cmocka_unit_test(an_old_driver_is_told_its_version),
      cmocka_unit_test(a_driver_without_device_is_told),
      cmocka_unit_test(a_missing_nvrtc_is_told),
      cmocka_unit_test(a_device_runs_the_highest_arch_below_it),
      cmocka_unit_test(a_spec_is_completed_for_the_device),
  };
  if (argc > 1) return as_told(argv[1]);
  return cmocka_run_group_tests_name("no GPU", tests, expect_to_end, NULL);
}
