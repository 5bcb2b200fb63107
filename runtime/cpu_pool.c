/* cpu_pool.c: threads that draw blocks of a grid in ascending order. */
#include "cpu_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "error.h"

typedef struct worker {
  cpu_pool *pool;
  float *scratch;
  pthread_t thread; /* of all but worker 0, which is whoever launches */
} worker;

struct cpu_pool {
  const fa_cpu_ops *ops;
  pid_t owner;
  int threads, started;
  size_t scratch_bytes;
  pthread_mutex_t launching; /* held for a whole launch */

  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t wake, idle;
  unsigned long round; /* raised for every grid */
  int busy;            /* workers that have not finished this round */
  int closing;
  cpu_grid grid;

  atomic_ullong next_block;
  worker workers[];
};

/* Draws blocks until none is left. The draw is in ascending order: a block that waits for a lower
   one waits for one that has certainly started. */
static void draw_blocks(worker *self) {
  cpu_pool *pool = self->pool;
  const cpu_grid *grid = &pool->grid;
  unsigned long long plane = (unsigned long long)grid->size[0] * grid->size[1];
  unsigned long long total = plane * grid->size[2], index;
  fa_cpu_block block = {.scratch = self->scratch, .ops = pool->ops};
  while ((index = atomic_fetch_add(&pool->next_block, 1)) < total) {
    block.x = (long long)(index % grid->size[0]);
    block.y = (long long)(index % plane / grid->size[0]);
    block.z = (long long)(index / plane);
    grid->entry(grid->args, &block);
  }
}

static void *work(void *argument) {
  worker *self = argument;
  cpu_pool *pool = self->pool;
  unsigned long seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (pool->round == seen && !pool->closing) pthread_cond_wait(&pool->wake, &pool->lock);
    if (pool->closing) break;
    seen = pool->round;
    pthread_mutex_unlock(&pool->lock);
    draw_blocks(self);
    pthread_mutex_lock(&pool->lock);
    if (--pool->busy == 0) pthread_cond_signal(&pool->idle);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

fa_status cpu_pool_create(cpu_pool **out, int threads, const fa_cpu_ops *ops) {
  cpu_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->workers);
  *out = pool;
  if (!pool) return fail(FA_NO_MEMORY, "threads: out of memory for %d", threads);
  pool->ops = ops;
  pool->owner = getpid();
  pool->threads = threads;
  pool->started = 1;
  pthread_mutex_init(&pool->launching, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->idle, NULL);
  for (int i = 0; i < threads; ++i) pool->workers[i].pool = pool;
  for (; pool->started < threads; ++pool->started) {
    worker *self = &pool->workers[pool->started];
    if (!pthread_create(&self->thread, NULL, work, self)) continue;
    fa_status status =
        fail(FA_NO_MEMORY, "threads: the system started %d of %d", pool->started, threads);
    cpu_pool_destroy(pool);
    *out = NULL;
    return status;
  }
  return FA_OK;
}

void cpu_pool_destroy(cpu_pool *pool) {
  if (!pool) return;
  int forked = pool->owner != getpid();
  if (!forked) {
    pthread_mutex_lock(&pool->lock);
    pool->closing = 1;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < pool->started; ++i) pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->launching);
  }
  for (int i = 0; i < pool->threads; ++i) free(pool->workers[i].scratch);
  free(pool);
}

int cpu_pool_threads(const cpu_pool *pool) {
  return pool->threads;
}

static fa_status grow_scratch(cpu_pool *pool, size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  for (int i = 0; i < pool->threads; ++i) {
    float *fresh = aligned_alloc(64, bytes);
    if (!fresh) return fail(FA_NO_MEMORY, "scratch: no %zu bytes for thread %d", bytes, i);
    free(pool->workers[i].scratch);
    pool->workers[i].scratch = fresh;
  }
  pool->scratch_bytes = bytes;
  return FA_OK;
}

fa_status cpu_pool_reserve(cpu_pool *pool, size_t scratch_bytes) {
  pthread_mutex_lock(&pool->launching);
  fa_status status =
      scratch_bytes > pool->scratch_bytes ? grow_scratch(pool, scratch_bytes) : FA_OK;
  pthread_mutex_unlock(&pool->launching);
  return status;
}

static void run_grid(cpu_pool *pool, const cpu_grid *grid) {
  unsigned long long total = (unsigned long long)grid->size[0] * grid->size[1] * grid->size[2];
  if (!total) return;
  int alone = total == 1 || pool->threads == 1;
  atomic_store(&pool->next_block, 0);
  pthread_mutex_lock(&pool->lock);
  pool->grid = *grid;
  if (!alone) {
    pool->busy = pool->threads - 1;
    ++pool->round;
    pthread_cond_broadcast(&pool->wake);
  }
  pthread_mutex_unlock(&pool->lock);
  draw_blocks(&pool->workers[0]);
  if (alone) return;
  pthread_mutex_lock(&pool->lock);
  while (pool->busy) pthread_cond_wait(&pool->idle, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

fa_status cpu_pool_run(cpu_pool *pool, const cpu_grid *grids, int count) {
  if (pool->owner != getpid())
    return fail(FA_UNSUPPORTED, "context: made before fork(); a child must create its own");
  pthread_mutex_lock(&pool->launching);
  for (int i = 0; i < count; ++i) run_grid(pool, &grids[i]);
  pthread_mutex_unlock(&pool->launching);
  return FA_OK;
}
