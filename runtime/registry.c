/* registry.c: a hash table that is read without a lock, and builds that others can wait for.
   Keys are canonical specs, compared whole. Entries are only ever added, so a reader needs no more
   than an acquire load of the table and of a slot; outgrown tables stay until the end for late
   readers. */
#include "registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "fork.h"

typedef struct entry {
  fa_spec key;
  fa_kernel *kernel;
} entry;

typedef struct table {
  struct table *outgrown;
  size_t capacity, count; /* capacity is a power of two, at least twice count */
  _Atomic(entry *) slots[];
} table;

/* A build under way. The last of the builder and those who wait frees it. */
typedef struct build {
  struct build *next;
  fa_spec key;
  int holders, done;
  fa_status status;
  fa_kernel *kernel;
  char *message;
} build;

struct registry {
  registry_free free_kernel;
  _Atomic(table *) current;
  pthread_mutex_t lock; /* guards additions and the list of builds; never held during a build */
  pthread_cond_t built;
  build *builds;
  unsigned fork_depth; /* a child has neither the threads that build nor, for sure, the lock */
};

enum { FIRST_CAPACITY = 64 };

/* Mixes the fixed fields and the used part of the names; equal specs have equal bytes. */
static size_t hash_spec(const fa_spec *spec) {
  uint64_t words[(offsetof(fa_spec, variants) - offsetof(fa_spec, pass)) / 8], hash = 0;
  memcpy(words, &spec->pass, sizeof words);
  for (size_t i = 0; i < sizeof words / 8; ++i)
    hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  for (const char *at = spec->variants; *at; ++at)
    hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
  return (size_t)(hash ^ hash >> 32);
}

static table *new_table(size_t capacity) {
  table *fresh = calloc(1, sizeof *fresh + capacity * sizeof fresh->slots[0]);
  if (fresh) fresh->capacity = capacity;
  return fresh;
}

const fa_kernel *registry_find(registry *kernels, const fa_spec *spec) {
  table *at = atomic_load_explicit(&kernels->current, memory_order_acquire);
  for (size_t i = hash_spec(spec);; ++i) {
    entry *e = atomic_load_explicit(&at->slots[i & (at->capacity - 1)], memory_order_acquire);
    if (!e) return NULL;
    if (!memcmp(&e->key, spec, sizeof *spec)) return e->kernel;
  }
}

static void insert(table *to, entry *e) {
  size_t i = hash_spec(&e->key);
  while (atomic_load_explicit(&to->slots[i & (to->capacity - 1)], memory_order_relaxed)) ++i;
  atomic_store_explicit(&to->slots[i & (to->capacity - 1)], e, memory_order_release);
  ++to->count;
}

static table *grown(table *old) {
  table *fresh = new_table(old->capacity * 2);
  if (!fresh) return NULL;
  fresh->outgrown = old;
  for (size_t i = 0; i < old->capacity; ++i) {
    entry *e = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
    if (e) insert(fresh, e);
  }
  return fresh;
}

/* Makes a built kernel visible. Under the lock. */
static fa_status publish(registry *kernels, const fa_spec *spec, fa_kernel *kernel) {
  table *at = atomic_load_explicit(&kernels->current, memory_order_relaxed);
  entry *e = malloc(sizeof *e);
  if (e && (at->count + 1) * 2 > at->capacity) at = grown(at);
  if (!e || !at) {
    free(e);
    return fail(FA_NO_MEMORY, "registry: out of memory");
  }
  e->key = *spec;
  e->kernel = kernel;
  insert(at, e);
  atomic_store_explicit(&kernels->current, at, memory_order_release);
  return FA_OK;
}

static build *find_build(registry *kernels, const fa_spec *spec) {
  for (build *b = kernels->builds; b; b = b->next)
    if (!memcmp(&b->key, spec, sizeof *spec)) return b;
  return NULL;
}

static void remove_build(registry *kernels, build *b) {
  build **link = &kernels->builds;
  while (*link != b) link = &(*link)->next;
  *link = b->next;
}

/* Takes the outcome of a build that is done. Under the lock. */
static fa_status outcome_of(const fa_kernel **out, build *b) {
  fa_status status = b->status;
  if (status)
    fail(status, "%s", b->message ? b->message : "the build failed");
  else
    *out = b->kernel;
  if (--b->holders == 0) {
    free(b->message);
    free(b);
  }
  return status;
}

/* Builds as the one that came first. The lock is held on entry and on return, not in between. */
static fa_status build_first(const fa_kernel **out, registry *kernels, fa_context *context,
                             const fa_spec *spec, registry_build make) {
  build *b = calloc(1, sizeof *b);
  if (!b) return fail(FA_NO_MEMORY, "registry: out of memory");
  b->key = *spec;
  b->holders = 1;
  b->next = kernels->builds;
  kernels->builds = b;
  pthread_mutex_unlock(&kernels->lock);
  b->status = make(&b->kernel, context, spec);
  pthread_mutex_lock(&kernels->lock);
  if (!b->status && (b->status = publish(kernels, spec, b->kernel))) {
    kernels->free_kernel(b->kernel);
    b->kernel = NULL;
  }
  if (b->status) b->message = strdup(fa_error_message());
  b->done = 1;
  remove_build(kernels, b);
  pthread_cond_broadcast(&kernels->built);
  return outcome_of(out, b);
}

fa_status registry_get(const fa_kernel **out, registry *kernels, fa_context *context,
                       const fa_spec *spec, registry_build make) {
  if ((*out = registry_find(kernels, spec))) return FA_OK;
  if (kernels->fork_depth != fork_depth())
    return fail(FA_UNSUPPORTED, "context: made before fork(); a child must create its own");
  pthread_mutex_lock(&kernels->lock);
  fa_status status = FA_OK;
  build *b;
  if ((*out = registry_find(kernels, spec))) {
    /* built since */
  } else if ((b = find_build(kernels, spec))) {
    ++b->holders;
    while (!b->done) pthread_cond_wait(&kernels->built, &kernels->lock);
    status = outcome_of(out, b);
  } else {
    status = build_first(out, kernels, context, spec, make);
  }
  pthread_mutex_unlock(&kernels->lock);
  return status;
}

fa_status registry_create(registry **out, registry_free free_kernel) {
  registry *kernels = calloc(1, sizeof *kernels);
  table *first = kernels ? new_table(FIRST_CAPACITY) : NULL;
  *out = first ? kernels : NULL;
  if (!first) {
    free(kernels);
    return fail(FA_NO_MEMORY, "registry: out of memory");
  }
  atomic_store(&kernels->current, first);
  kernels->free_kernel = free_kernel;
  kernels->fork_depth = fork_depth();
  pthread_mutex_init(&kernels->lock, NULL);
  pthread_cond_init(&kernels->built, NULL);
  return FA_OK;
}

void registry_destroy(registry *kernels) {
  if (!kernels) return;
  table *at = atomic_load(&kernels->current);
  for (size_t i = 0; i < at->capacity; ++i) {
    entry *e = atomic_load(&at->slots[i]);
    if (e) kernels->free_kernel(e->kernel);
    free(e);
  }
  while (at) {
    table *outgrown = at->outgrown;
    free(at);
    at = outgrown;
  }
  pthread_cond_destroy(&kernels->built);
  pthread_mutex_destroy(&kernels->lock);
  free(kernels);
}
