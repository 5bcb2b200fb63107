/* pool.c: threads that share the indices of one loop at a time. */
#include "train_text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct pool {
  pthread_mutex_t lock;
  pthread_cond_t begin, end;
  pthread_t *workers;
  int num_workers; /* beside the thread that calls pool_run */
  int busy;
  bool stop;
  uint64_t round;
  pool_task *task;
  void *work;
  int64_t count;
  atomic_llong next;
};

static void take_indices(pool *p) {
  for (;;) {
    int64_t index = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
    if (index >= p->count) return;
    p->task(p->work, index);
  }
}

static void *worker_main(void *argument) {
  pool *p = argument;
  uint64_t seen = 0;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (p->round == seen && !p->stop) pthread_cond_wait(&p->begin, &p->lock);
    if (p->stop) break;
    seen = p->round;
    pthread_mutex_unlock(&p->lock);
    take_indices(p);
    pthread_mutex_lock(&p->lock);
    if (--p->busy == 0) pthread_cond_signal(&p->end);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

pool *pool_create(int threads) {
  pool *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->begin, NULL);
  pthread_cond_init(&p->end, NULL);
  p->workers = calloc((size_t)threads, sizeof *p->workers);
  bool started = p->workers != NULL;
  while (started && p->num_workers < threads - 1) {
    started = pthread_create(&p->workers[p->num_workers], NULL, worker_main, p) == 0;
    if (started) p->num_workers++;
  }
  if (started) return p;
  pool_destroy(p);
  return NULL;
}

void pool_destroy(pool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < p->num_workers; ++i) pthread_join(p->workers[i], NULL);
  pthread_cond_destroy(&p->end);
  pthread_cond_destroy(&p->begin);
  pthread_mutex_destroy(&p->lock);
  free(p->workers);
  free(p);
}

void pool_run(pool *p, pool_task *task, void *work, int64_t count) {
  p->task = task;
  p->work = work;
  p->count = count;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  if (p->num_workers == 0 || count < 2) {
    take_indices(p);
    return;
  }
  pthread_mutex_lock(&p->lock);
  p->busy = p->num_workers;
  p->round++;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->lock);
  take_indices(p);
  pthread_mutex_lock(&p->lock);
  while (p->busy > 0) pthread_cond_wait(&p->end, &p->lock);
  pthread_mutex_unlock(&p->lock);
}
