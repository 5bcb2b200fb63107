/* fork.c: a counter that every forked child finds raised by one, and locks that it finds free. */
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_uint depth;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

enum { MOST_LOCKS = 4 };
static _Atomic(pthread_mutex_t *) locks[MOST_LOCKS];

static void enter_child(void) {
  for (int i = 0; i < MOST_LOCKS; ++i) {
    pthread_mutex_t *lock = atomic_load(&locks[i]);
    if (lock) pthread_mutex_init(lock, NULL);
  }
  atomic_fetch_add_explicit(&depth, 1, memory_order_relaxed);
}

static void register_handler(void) {
  pthread_atfork(NULL, NULL, enter_child);
}

unsigned fork_depth(void) {
  pthread_once(&registered, register_handler);
  return atomic_load_explicit(&depth, memory_order_relaxed);
}

void fork_frees(pthread_mutex_t *lock) {
  pthread_once(&registered, register_handler);
  for (int i = 0; i < MOST_LOCKS; ++i) {
    pthread_mutex_t *none = NULL;
    if (atomic_compare_exchange_strong(&locks[i], &none, lock) || none == lock) return;
  }
}
