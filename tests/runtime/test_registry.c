/* test_registry.c: one build a key, however many ask; builds of different keys side by side; a
   table that grows under its readers. The builds are this test's own. */
#include "gen/error.h"

/* cmocka.h has a macro of this name. */
static fa_status refuse(void) {
  return fail(FA_TEMPLATE, "variants/x.lua:7: no");
}

#include "support/expect.h"

#include "gen/spec.h"
#include "runtime/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 32, MANY = 4000 };

static fa_spec key_of(int number) {
  fa_spec spec = FA_SPEC_INIT, key = FA_SPEC_INIT;
  spec.pass = FA_FWD;
  spec.target = FA_TARGET_CPU;
  spec.dtype = FA_F32;
  spec.dim_qk = 64;
  spec.group = 1 + number;
  expect_ok(spec_canonicalise(&key, &spec));
  return key;
}

static void nap(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* ---- Builds --------------------------------------------------------------------------------- */

static atomic_int builds, freed;
static atomic_int may_end; /* what slow builds wait for */

/* A kernel is no more than memory that remembers its key. */
static fa_status build(fa_kernel **out, fa_context *context, const fa_spec *spec) {
  (void)context;
  ++builds;
  fa_spec *made = malloc(sizeof *made);
  if (!made) return FA_NO_MEMORY;
  *made = *spec;
  *out = (fa_kernel *)(void *)made;
  return FA_OK;
}

static fa_status build_slowly(fa_kernel **out, fa_context *context, const fa_spec *spec) {
  while (!may_end) nap(1);
  return build(out, context, spec);
}

static fa_status build_badly(fa_kernel **out, fa_context *context, const fa_spec *spec) {
  (void)out, (void)context, (void)spec;
  while (!may_end) nap(1);
  ++builds;
  return refuse();
}

static void release(fa_kernel *kernel) {
  ++freed;
  free(kernel);
}

static registry *new_registry(void) {
  registry *kernels;
  builds = freed = may_end = 0;
  expect_ok(registry_create(&kernels, release));
  return kernels;
}

static void assert_kernel_of(const fa_kernel *kernel, const fa_spec *key) {
  assert_non_null(kernel);
  assert_memory_equal(kernel, key, sizeof *key);
}

/* ---- Threads that ask ----------------------------------------------------------------------- */

typedef struct asker {
  registry *kernels;
  fa_spec key;
  registry_build build;
  const fa_kernel *got;
  fa_status status;
  char message[256];
} asker;

static atomic_int asking;

static void *ask(void *argument) {
  asker *a = argument;
  ++asking;
  a->status = registry_get(&a->got, a->kernels, NULL, &a->key, a->build);
  snprintf(a->message, sizeof a->message, "%s", a->status ? fa_error_message() : "");
  return NULL;
}

/* Starts `count` askers, and lets slow builds end once all have had time to come to wait. */
static void ask_together(asker *askers, int count) {
  pthread_t threads[THREADS];
  asking = 0;
  for (int i = 0; i < count; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
  while (asking < count) nap(1);
  nap(100);
  may_end = 1;
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static void one_key_is_built_once_for_all_threads(void **state) {
  registry *kernels = new_registry();
  asker askers[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; ++i)
    askers[i] = (asker){kernels, key_of(1), build_slowly, NULL, 0, ""};
  ask_together(askers, THREADS);
  assert_int_equal(builds, 1);
  for (int i = 0; i < THREADS; ++i) {
    assert_int_equal(askers[i].status, FA_OK);
    assert_ptr_equal(askers[i].got, askers[0].got);
  }
  assert_kernel_of(askers[0].got, &askers[0].key);
  registry_destroy(kernels);
  assert_int_equal(freed, 1);
}

static void a_failure_is_shared_and_forgotten(void **state) {
  registry *kernels = new_registry();
  asker askers[THREADS];
  const fa_kernel *got = NULL;
  fa_spec key = key_of(1);
  (void)state;
  for (int i = 0; i < THREADS; ++i) askers[i] = (asker){kernels, key, build_badly, NULL, 0, ""};
  ask_together(askers, THREADS);
  assert_int_equal(builds, 1);
  for (int i = 0; i < THREADS; ++i) {
    assert_int_equal(askers[i].status, FA_TEMPLATE);
    assert_null(askers[i].got);
    expect_words("a waiting thread", askers[i].message, "x.lua:7: no");
  }
  expect_refused(registry_get(&got, kernels, NULL, &key, build_badly), FA_TEMPLATE, "x.lua:7: no");
  assert_int_equal(builds, 2);
  expect_ok(registry_get(&got, kernels, NULL, &key, build));
  assert_kernel_of(got, &key);
  registry_destroy(kernels);
  assert_int_equal(freed, 1);
}

static void a_slow_build_delays_no_other_key(void **state) {
  registry *kernels = new_registry();
  asker slow = {kernels, key_of(1), build_slowly, NULL, 0, ""};
  const fa_kernel *first, *other, *again;
  fa_spec key_first = key_of(2), key_other = key_of(3);
  pthread_t thread;
  (void)state;
  expect_ok(registry_get(&first, kernels, NULL, &key_first, build));
  assert_int_equal(pthread_create(&thread, NULL, ask, &slow), 0);
  nap(20);
  expect_ok(registry_get(&other, kernels, NULL, &key_other, build)); /* hangs when it waits */
  expect_ok(registry_get(&again, kernels, NULL, &key_first, build));
  assert_ptr_equal(first, again);
  assert_kernel_of(other, &key_other);
  assert_int_equal(builds, 2);
  may_end = 1;
  pthread_join(thread, NULL);
  assert_int_equal(slow.status, FA_OK);
  assert_int_equal(builds, 3);
  registry_destroy(kernels);
  assert_int_equal(freed, 3);
}

static void different_keys_are_built_side_by_side(void **state) {
  registry *kernels = new_registry();
  asker askers[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; ++i)
    askers[i] = (asker){kernels, key_of(i % 8), build_slowly, NULL, 0, ""};
  ask_together(askers, THREADS);
  assert_int_equal(builds, 8);
  for (int i = 0; i < THREADS; ++i) {
    assert_kernel_of(askers[i].got, &askers[i].key);
    assert_ptr_equal(askers[i].got, askers[i % 8].got);
  }
  registry_destroy(kernels);
  assert_int_equal(freed, 8);
}

/* ---- Growth --------------------------------------------------------------------------------- */

static void every_key_is_found_again(void **state) {
  registry *kernels = new_registry();
  static const fa_kernel *first[MANY];
  (void)state;
  for (int i = 0; i < MANY; ++i) {
    fa_spec key = key_of(i);
    expect_ok(registry_get(&first[i], kernels, NULL, &key, build));
  }
  for (int i = 0; i < MANY; ++i) {
    fa_spec key = key_of(i);
    const fa_kernel *again;
    expect_ok(registry_get(&again, kernels, NULL, &key, build_badly));
    assert_ptr_equal(again, first[i]);
    assert_kernel_of(again, &key);
  }
  assert_int_equal(builds, MANY);
  registry_destroy(kernels);
  assert_int_equal(freed, MANY);
}

/* Every field, and each byte of the names, tells keys apart. */
static void keys_are_compared_whole(void **state) {
  registry *kernels = new_registry();
  fa_spec keys[16];
  const fa_kernel *got[COUNT_OF(keys)];
  int count = 0;
  (void)state;
  for (size_t field = offsetof(fa_spec, pass); field < offsetof(fa_spec, reserved); field += 4) {
    keys[count] = key_of(1);
    *(int32_t *)((char *)&keys[count++] + field) ^= 2;
  }
  for (int i = 0; i < 4; ++i) {
    keys[count] = key_of(1);
    memset(keys[count].variants, 'a', FA_VARIANTS_MAX - 1);
    keys[count++].variants[(FA_VARIANTS_MAX - 2) * i / 3] = 'b';
  }
  for (int i = 0; i < count; ++i) expect_ok(registry_get(&got[i], kernels, NULL, &keys[i], build));
  assert_int_equal(builds, count);
  for (int i = 0; i < count; ++i) assert_kernel_of(got[i], &keys[i]);
  registry_destroy(kernels);
}

typedef struct reader {
  registry *kernels;
  atomic_int *added;
  unsigned long found;
  int wrong;
} reader;

/* Looks up what has been added so far, again and again, until all is there. */
static void *read_on(void *argument) {
  reader *r = argument;
  for (int added = 0; added < MANY;) {
    added = *r->added;
    for (int i = added > 40 ? added - 40 : 0; i < added; ++i) {
      fa_spec key = FA_SPEC_INIT;
      const fa_kernel *got = NULL;
      key = key_of(i);
      if (registry_get(&got, r->kernels, NULL, &key, build_badly) || !got ||
          memcmp(got, &key, sizeof key))
        ++r->wrong;
      ++r->found;
    }
  }
  return NULL;
}

static void look_up_works_while_the_table_grows(void **state) {
  registry *kernels = new_registry();
  atomic_int added = 0;
  reader readers[4];
  pthread_t threads[COUNT_OF(readers)];
  (void)state;
  may_end = 1;
  for (size_t i = 0; i < COUNT_OF(readers); ++i) {
    readers[i] = (reader){kernels, &added, 0, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
  }
  for (int i = 0; i < MANY; ++i) {
    const fa_kernel *got;
    fa_spec key = key_of(i);
    expect_ok(registry_get(&got, kernels, NULL, &key, build));
    added = i + 1;
  }
  for (size_t i = 0; i < COUNT_OF(readers); ++i) {
    pthread_join(threads[i], NULL);
    assert_int_equal(readers[i].wrong, 0);
    assert_true(readers[i].found >= 40);
  }
  assert_int_equal(builds, MANY);
  registry_destroy(kernels);
}

static void nothing_can_be_destroyed(void **state) {
  registry *kernels = new_registry();
  (void)state;
  registry_destroy(NULL);
  registry_destroy(kernels);
  assert_int_equal(freed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_key_is_built_once_for_all_threads),
      cmocka_unit_test(a_failure_is_shared_and_forgotten),
      cmocka_unit_test(a_slow_build_delays_no_other_key),
      cmocka_unit_test(different_keys_are_built_side_by_side),
      cmocka_unit_test(every_key_is_found_again),
      cmocka_unit_test(keys_are_compared_whole),
      cmocka_unit_test(look_up_works_while_the_table_grows),
      cmocka_unit_test(nothing_can_be_destroyed),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
