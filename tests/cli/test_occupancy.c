/* test_occupancy.c: the occupancy that `explain` prints, by hand and beside the toolkit's own
   calculator where there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "occupancy.h"

#if __has_include(<cuda_occupancy.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop
#define HAVE_CALCULATOR 1
#endif

static const int archs[] = {80, 86, 89, 90, 100, 120};
enum { ARCHS = sizeof archs / sizeof *archs };

static void every_arch_of_a_spec_has_a_model(void **state) {
  (void)state;
  for (int i = 0; i < ARCHS; ++i) {
    const gpu_model *model = gpu_model_of(archs[i]);
    assert_non_null(model);
    assert_int_equal(model->arch, archs[i]);
    assert_true(model->processors > 0 && model->l2_bytes > 0);
    assert_true(model->block_shared_bytes < model->shared_bytes);
  }
  assert_null(gpu_model_of(0));
  assert_null(gpu_model_of(75));
}

/* Reckoned by hand: 65536 registers, 228 KiB (cc90) or 100 KiB (cc86), 1 KiB a block besides. */
static void known_cases(void **state) {
  (void)state;
  static const struct {
    int arch, registers, shared_bytes, threads, blocks, warps;
    const char *limit;
  } cases[] = {
      {80, 255, 65536, 128, 2, 8, "registers"},   /* 256 x 32 a warp: 8 warps */
      {90, 128, 230400, 512, 1, 16, "registers"}, /* 16 warps of 4096 are all of them */
      {90, 168, 200 * 1024, 384, 1, 12, "registers"},
      {90, 64, 100 * 1024, 128, 2, 8, "shared memory"},
      {90, 32, 0, 1024, 2, 64, "registers"}, /* as many as warps allow: named first */
      {90, 16, 0, 1024, 2, 64, "warps"},
      {90, 32, 0, 32, 32, 32, "blocks"},
      {86, 32, 99 * 1024, 256, 1, 8, "shared memory"},
      {86, 32, 99 * 1024 + 1, 256, 0, 0, "shared memory"},
      {90, 255, 0, 512, 0, 0, "registers"}, /* 16 warps of 8192 are twice too many */
      {90, 256, 0, 32, 0, 0, "registers"},
      {90, 32, 0, 1025, 0, 0, "threads a block"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const occupancy got = occupancy_of(gpu_model_of(cases[i].arch), cases[i].registers,
                                       cases[i].shared_bytes, cases[i].threads);
    if (got.blocks == cases[i].blocks && got.warps == cases[i].warps &&
        !strcmp(got.limit, cases[i].limit))
      continue;
    fail_msg("case %zu: %d blocks, %d warps, %s; wanted %d, %d, %s", i, got.blocks, got.warps,
             got.limit, cases[i].blocks, cases[i].warps, cases[i].limit);
  }
}

#ifdef HAVE_CALCULATOR

static int by_calculator(const gpu_model *model, int registers, int shared_bytes, int threads) {
  const cudaOccDeviceProp device = {.computeMajor = model->arch / 10,
                                    .computeMinor = model->arch % 10,
                                    .maxThreadsPerBlock = 1024,
                                    .maxThreadsPerMultiprocessor = model->warps * 32,
                                    .regsPerBlock = 65536,
                                    .regsPerMultiprocessor = 65536,
                                    .warpSize = 32,
                                    .sharedMemPerBlock = 48 * 1024,
                                    .sharedMemPerMultiprocessor = (size_t)model->shared_bytes,
                                    .numSms = model->processors,
                                    .sharedMemPerBlockOptin = (size_t)model->block_shared_bytes,
                                    .reservedSharedMemPerBlock = 1024};
  const cudaOccFuncAttributes function = {.maxThreadsPerBlock = 1024,
                                          .numRegs = registers,
                                          .partitionedGCConfig = PARTITIONED_GC_OFF,
                                          .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
                                          .maxDynamicSharedSizeBytes = (size_t)shared_bytes};
  const cudaOccDeviceState all_shared = {.cacheConfig = CACHE_PREFER_SHARED, .carveoutConfig = 100};
  cudaOccResult result;
  memset(&result, 0, sizeof result);
  int failed = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &all_shared,
                                                       threads, (size_t)shared_bytes);
  if (failed) fail_msg("cc%d: cuda_occupancy.h gives error %d", model->arch, failed);
  return result.activeBlocksPerMultiprocessor;
}

/* What a block may have: beyond it the calculator's answers are of another kind. */
static void as_the_toolkit_reckons(void **state) {
  (void)state;
  int compared = 0;
  for (int i = 0; i < ARCHS; ++i) {
    const gpu_model *model = gpu_model_of(archs[i]);
    for (int registers = 16; registers <= 255; registers += registers < 248 ? 8 : 7)
      for (int threads = 32; threads <= 1024; threads += 32)
        for (int shared = 0; shared <= model->block_shared_bytes; shared += 1000) {
          int ours = occupancy_of(model, registers, shared, threads).blocks;
          int theirs = by_calculator(model, registers, shared, threads);
          ++compared;
          if (ours != theirs)
            fail_msg("cc%d, %d registers, %d bytes, %d threads: %d blocks, cuda_occupancy.h %d",
                     model->arch, registers, shared, threads, ours, theirs);
        }
  }
  print_message("%d cases compared\n", compared);
}

#else

static void as_the_toolkit_reckons(void **state) {
  (void)state;
  print_message("no cuda_occupancy.h to compare with\n");
  skip();
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_arch_of_a_spec_has_a_model),
      cmocka_unit_test(known_cases),
      cmocka_unit_test(as_the_toolkit_reckons),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
