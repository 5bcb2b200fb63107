/* fork.c: a counter that every forked child finds raised by one. */
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_uint depth;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

static void raise_depth(void) {
  atomic_fetch_add_explicit(&depth, 1, memory_order_relaxed);
}

static void register_handler(void) {
  pthread_atfork(NULL, NULL, raise_depth);
}

unsigned fork_depth(void) {
  pthread_once(&registered, register_handler);
  return atomic_load_explicit(&depth, memory_order_relaxed);
}
