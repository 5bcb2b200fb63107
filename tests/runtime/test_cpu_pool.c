/* test_cpu_pool.c: every block of a grid runs exactly once, starts in ascending order, and finds
   its own aligned scratch, for any number of threads. */
#include "support/expect.h"

#include "runtime/cpu_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGEST_GRID = 4096, SCRATCH_BYTES = 1000, MAX_THREADS = 8 };

/* The argument of the entries: what the blocks saw. */
typedef struct record {
  const fa_cpu_ops *ops;
  unsigned size[3];
  atomic_int runs[LARGEST_GRID];
  atomic_int started; /* blocks that have started */
  atomic_int faults;
  int scratch_bytes;
} record;

static const fa_cpu_ops no_ops;

static long long index_of(const record *r, const fa_cpu_block *block) {
  return block->x + r->size[0] * (block->y + (long long)r->size[1] * block->z);
}

static record *new_record(unsigned x, unsigned y, unsigned z) {
  record *r = calloc(1, sizeof *r);
  assert_non_null(r);
  r->ops = &no_ops;
  r->size[0] = x;
  r->size[1] = y;
  r->size[2] = z;
  return r;
}

static cpu_grid grid_of(fa_cpu_entry entry, record *r) {
  cpu_grid grid = {entry, r, {r->size[0], r->size[1], r->size[2]}};
  return grid;
}

static void assert_all_ran_once(const record *r) {
  const long long total = (long long)r->size[0] * r->size[1] * r->size[2];
  for (long long i = 0; i < LARGEST_GRID; ++i)
    if (r->runs[i] != (i < total)) fail_msg("block %d ran %d times", (int)i, r->runs[i]);
  assert_int_equal(r->faults, 0);
}

static cpu_pool *new_pool(int threads) {
  cpu_pool *pool;
  expect_ok(cpu_pool_create(&pool, threads, &no_ops));
  assert_int_equal(cpu_pool_threads(pool), threads);
  return pool;
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static void count_block(const void *args, const fa_cpu_block *block) {
  record *r = (record *)args;
  ++r->runs[index_of(r, block)];
  if (block->ops != r->ops || block->x >= r->size[0] || block->y >= r->size[1] ||
      block->z >= r->size[2] || block->x < 0 || block->y < 0 || block->z < 0)
    ++r->faults;
}

static void every_block_runs_once(void **state) {
  static const unsigned sizes[][3] = {{1, 1, 1}, {7, 1, 1},  {1, 7, 1},   {1, 1, 7},
                                      {3, 5, 7}, {64, 8, 8}, {4096, 1, 1}};
  (void)state;
  for (int threads = 1; threads <= MAX_THREADS; ++threads) {
    cpu_pool *pool = new_pool(threads);
    for (size_t i = 0; i < COUNT_OF(sizes); ++i) {
      record *r = new_record(sizes[i][0], sizes[i][1], sizes[i][2]);
      cpu_grid grid = grid_of(count_block, r);
      expect_ok(cpu_pool_run(pool, &grid, 1));
      assert_all_ran_once(r);
      free(r);
    }
    cpu_pool_destroy(pool);
  }
}

static void an_empty_grid_runs_nothing(void **state) {
  static const unsigned sizes[][3] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0, 0, 0}};
  cpu_pool *pool = new_pool(4);
  (void)state;
  expect_ok(cpu_pool_run(pool, NULL, 0));
  for (size_t i = 0; i < COUNT_OF(sizes); ++i) {
    record *r = new_record(sizes[i][0], sizes[i][1], sizes[i][2]);
    cpu_grid grid = grid_of(count_block, r);
    expect_ok(cpu_pool_run(pool, &grid, 1));
    for (int n = 0; n < LARGEST_GRID; ++n) assert_int_equal(r->runs[n], 0);
    free(r);
  }
  cpu_pool_destroy(pool);
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* Waits until all lower blocks have started: hangs unless blocks start in ascending order. */
static void wait_for_lower(const void *args, const fa_cpu_block *block) {
  record *r = (record *)args;
  long long index = index_of(r, block);
  while (r->started < index) sched_yield();
  ++r->started;
  ++r->runs[index];
}

static void a_block_may_wait_for_a_lower_one(void **state) {
  (void)state;
  for (int threads = 1; threads <= MAX_THREADS; ++threads) {
    cpu_pool *pool = new_pool(threads);
    for (int round = 0; round < 10; ++round) {
      record *r = new_record(5, 4, 10);
      cpu_grid grid = grid_of(wait_for_lower, r);
      expect_ok(cpu_pool_run(pool, &grid, 1));
      assert_all_ran_once(r);
      free(r);
    }
    cpu_pool_destroy(pool);
  }
}

static record *earlier;

/* A fault when the grid before has not ended. */
static void follow(const void *args, const fa_cpu_block *block) {
  record *r = (record *)args;
  for (int i = 0; i < 64; ++i)
    if (earlier->runs[i] != 1) ++r->faults;
  ++r->runs[index_of(r, block)];
}

static void grids_run_one_after_the_other(void **state) {
  (void)state;
  for (int threads = 1; threads <= MAX_THREADS; ++threads) {
    cpu_pool *pool = new_pool(threads);
    record *later = new_record(64, 1, 1);
    earlier = new_record(64, 1, 1);
    const cpu_grid grids[] = {grid_of(count_block, earlier), grid_of(follow, later)};
    expect_ok(cpu_pool_run(pool, grids, 2));
    assert_all_ran_once(earlier);
    assert_all_ran_once(later);
    free(earlier);
    free(later);
    cpu_pool_destroy(pool);
  }
}

/* ---- Scratch -------------------------------------------------------------------------------- */

/* A fault when the scratch is not aligned, or another thread writes to it meanwhile. */
static void use_scratch(const void *args, const fa_cpu_block *block) {
  record *r = (record *)args;
  unsigned char mark = (unsigned char)index_of(r, block), *bytes = (unsigned char *)block->scratch;
  if ((uintptr_t)bytes % 64) ++r->faults;
  memset(bytes, mark, (size_t)r->scratch_bytes);
  sched_yield();
  for (int i = 0; i < r->scratch_bytes; ++i)
    if (bytes[i] != mark) {
      ++r->faults;
      break;
    }
  ++r->runs[index_of(r, block)];
}

static void each_thread_has_scratch_of_its_own(void **state) {
  (void)state;
  for (int threads = 1; threads <= MAX_THREADS; ++threads) {
    cpu_pool *pool = new_pool(threads);
    for (int bytes = 1; bytes <= 100000; bytes = bytes * 10 + 1) {
      record *r = new_record(40, 1, 1);
      cpu_grid grid = grid_of(use_scratch, r);
      r->scratch_bytes = bytes;
      expect_ok(cpu_pool_reserve(pool, (size_t)bytes));
      expect_ok(cpu_pool_reserve(pool, 1)); /* never shrinks */
      expect_ok(cpu_pool_run(pool, &grid, 1));
      assert_all_ran_once(r);
      free(r);
    }
    cpu_pool_destroy(pool);
  }
}

/* ---- Callers -------------------------------------------------------------------------------- */

static cpu_pool *shared;

static void *launch_often(void *argument) {
  for (int i = 0; i < 50; ++i) {
    record *r = new_record(17, 3, 1);
    cpu_grid grid = grid_of(use_scratch, r);
    r->scratch_bytes = SCRATCH_BYTES;
    if (cpu_pool_run(shared, &grid, 1)) ++*(int *)argument;
    for (int n = 0; n < 51; ++n) *(int *)argument += r->runs[n] != 1;
    *(int *)argument += r->faults;
    free(r);
  }
  return NULL;
}

static void launches_from_several_threads_take_turns(void **state) {
  pthread_t callers[4];
  int faults[COUNT_OF(callers)] = {0};
  (void)state;
  shared = new_pool(3);
  expect_ok(cpu_pool_reserve(shared, SCRATCH_BYTES));
  for (size_t i = 0; i < COUNT_OF(callers); ++i)
    assert_int_equal(pthread_create(&callers[i], NULL, launch_often, &faults[i]), 0);
  for (size_t i = 0; i < COUNT_OF(callers); ++i) {
    pthread_join(callers[i], NULL);
    assert_int_equal(faults[i], 0);
  }
  cpu_pool_destroy(shared);
}

static void a_forked_child_is_refused_and_can_destroy(void **state) {
  cpu_pool *pool = new_pool(3);
  record *r = new_record(9, 1, 1);
  cpu_grid grid = grid_of(count_block, r);
  int status = -1;
  (void)state;
  expect_ok(cpu_pool_run(pool, &grid, 1));
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int refused = cpu_pool_run(pool, &grid, 1) == FA_UNSUPPORTED;
    cpu_pool_destroy(pool);
    _exit(refused && strstr(fa_error_message(), "fork") ? 0 : 1);
  }
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  memset(r->runs, 0, sizeof r->runs);
  expect_ok(cpu_pool_run(pool, &grid, 1));
  assert_all_ran_once(r);
  cpu_pool_destroy(pool);
  cpu_pool_destroy(NULL);
  free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_block_runs_once),
      cmocka_unit_test(an_empty_grid_runs_nothing),
      cmocka_unit_test(a_block_may_wait_for_a_lower_one),
      cmocka_unit_test(grids_run_one_after_the_other),
      cmocka_unit_test(each_thread_has_scratch_of_its_own),
      cmocka_unit_test(launches_from_several_threads_take_turns),
      cmocka_unit_test(a_forked_child_is_refused_and_can_destroy),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
