/* cpu_pool.h: the threads of a cpu context, and the scratch of each. */
#ifndef FAGEN_RUNTIME_CPU_POOL_H
#define FAGEN_RUNTIME_CPU_POOL_H

#include "fagen.h"
#include "templates/cpu/abi.h"

typedef struct cpu_pool cpu_pool;

/* One grid of blocks. */
typedef struct cpu_grid {
  fa_cpu_entry entry;
  const void *args;
  unsigned size[3];
} cpu_grid;

/* threads >= 1, the calling thread of a launch included. */
fa_status cpu_pool_create(cpu_pool **out, int threads, const fa_cpu_ops *ops);
void cpu_pool_destroy(cpu_pool *pool);
int cpu_pool_threads(const cpu_pool *pool);

/* Makes every thread's scratch at least this large; waits for launches under way. */
fa_status cpu_pool_reserve(cpu_pool *pool, size_t scratch_bytes);

/* Runs the grids one after the other; returns when all blocks of all are done. Launches from
   several threads take turns. FA_UNSUPPORTED in a forked child, which has none of the threads. */
fa_status cpu_pool_run(cpu_pool *pool, const cpu_grid *grids, int count);

#endif
