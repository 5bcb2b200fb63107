/* occupancy.c: the table "Technical Specifications per Compute Capability" of the CUDA programming
   guide, and the allocation rules of cuda_occupancy.h. */
#include "occupancy.h"

#include <stddef.h>

enum {
  KIB = 1024,
  MIB = 1024 * 1024,
  WARP_THREADS = 32,
  REGISTERS = 65536,          /* of a multiprocessor, and the most that a block may have */
  MOST_REGISTERS = 255,       /* a thread */
  MOST_THREADS = 1024,        /* a block */
  QUARTERS = 4,               /* of a multiprocessor; a warp's registers are all in one */
  REGISTER_UNIT = 256,        /* a warp's are a multiple of it */
  SHARED_UNIT = 128,          /* a block's bytes likewise */
  SYSTEM_SHARED_BYTES = 1024, /* of every block, beside its own */
};

static const gpu_model models[] = {
    {80, "A100", 108, 40 * MIB, 64, 32, 164 * KIB, 163 * KIB},
    {86, "RTX 3090", 82, 6 * MIB, 48, 16, 100 * KIB, 99 * KIB},
    {89, "RTX 4090", 128, 72 * MIB, 48, 24, 100 * KIB, 99 * KIB},
    {90, "H100 SXM", 132, 50 * MIB, 64, 32, 228 * KIB, 227 * KIB},
    {100, "B200", 148, 126 * MIB, 64, 32, 228 * KIB, 227 * KIB},
    {120, "RTX 5090", 170, 96 * MIB, 48, 24, 100 * KIB, 99 * KIB},
};

const gpu_model *gpu_model_of(int arch) {
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i)
    if (models[i].arch == arch) return &models[i];
  return NULL;
}

static int round_up(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

static int blocks_by_registers(int registers, int block_warps) {
  int of_warp = round_up(registers * WARP_THREADS, REGISTER_UNIT);
  /* Whether a block may start at all is asked as if its warps filled all quarters alike. */
  if (registers > MOST_REGISTERS || of_warp * round_up(block_warps, QUARTERS) > REGISTERS) return 0;
  int of_quarter = REGISTERS / QUARTERS / of_warp;
  return of_quarter * QUARTERS / block_warps;
}

static int blocks_by_shared(const gpu_model *model, int shared_bytes) {
  if (shared_bytes > model->block_shared_bytes) return 0;
  return model->shared_bytes / round_up(shared_bytes + SYSTEM_SHARED_BYTES, SHARED_UNIT);
}

occupancy occupancy_of(const gpu_model *model, int registers, int shared_bytes, int threads) {
  if (registers < 1 || threads < 1 || threads > MOST_THREADS)
    return (occupancy){0, 0, threads > MOST_THREADS ? "threads a block" : "nothing to run"};
  const int block_warps = round_up(threads, WARP_THREADS) / WARP_THREADS;
  const struct {
    int blocks;
    const char *limit;
  } limits[] = {{blocks_by_registers(registers, block_warps), "registers"},
                {blocks_by_shared(model, shared_bytes), "shared memory"},
                {model->warps / block_warps, "warps"},
                {model->blocks, "blocks"}};
  occupancy found = {limits[0].blocks, 0, limits[0].limit};
  for (size_t i = 1; i < sizeof limits / sizeof *limits; ++i)
    if (limits[i].blocks < found.blocks) found = (occupancy){limits[i].blocks, 0, limits[i].limit};
  found.warps = found.blocks * block_warps;
  return found;
}
