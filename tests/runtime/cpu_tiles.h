/* cpu_tiles.h: what the tests of the cpu primitives share: random tiles, comparisons, and the loop
   over the instruction sets that this processor has. */
#ifndef FAGEN_TESTS_RUNTIME_CPU_TILES_H
#define FAGEN_TESTS_RUNTIME_CPU_TILES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu_ops.h"

static const fa_cpu_ops *ops; /* the instruction set under test */

/* ---- Random numbers, tiles, comparisons ----------------------------------------------------- */

static uint64_t random_state = 1;

static inline uint32_t random_bits(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 32);
}

static inline int random_int(int low, int high) {
  return low + (int)(random_bits() % (uint32_t)(high - low + 1));
}

static inline float random_float(float low, float high) {
  return low + (high - low) * (float)(random_bits() >> 8) * 0x1p-24f;
}

static inline int padded(int cols) {
  return (cols + FA_CPU_PAD - 1) / FA_CPU_PAD * FA_CPU_PAD;
}

/* Rows exactly as long as the contract asks, or longer; exactly as many as asked, so that a
   sanitizer sees a step outside. */
typedef struct tile {
  float *data;
  long long ld;
  int rows, cols;
} tile;

static inline tile tile_of(int rows, int cols) {
  tile t = {NULL, padded(cols) + FA_CPU_PAD * random_int(0, 1), rows, cols};
  size_t count = (size_t)(t.ld * rows);
  t.data = malloc(count * sizeof *t.data);
  assert_non_null(t.data);
  for (size_t i = 0; i < count; i++) t.data[i] = NAN;
  return t;
}

static inline float *at(tile t, int r, int c) {
  return t.data + r * t.ld + c;
}

static inline tile random_tile(int rows, int cols, float low, float high) {
  tile t = tile_of(rows, cols);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < cols; c++) *at(t, r, c) = random_float(low, high);
  return t;
}

static inline tile tile_copy(tile from) {
  tile t = from;
  t.data = malloc((size_t)(t.ld * t.rows) * sizeof *t.data);
  assert_non_null(t.data);
  memcpy(t.data, from.data, (size_t)(t.ld * t.rows) * sizeof *t.data);
  return t;
}

/* Whether the two are the same bits, or both NaN. */
static inline int same(float a, float b) {
  return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static inline void expect_same(const char *what, int r, int c, float got, float wanted) {
  if (!same(got, wanted)) fail_msg("%s[%d][%d] = %a, wanted %a", what, r, c, got, wanted);
}

static inline void expect_close(const char *what, int r, int c, double got, double wanted,
                                double bound) {
  if (!(fabs(got - wanted) <= bound))
    fail_msg("%s[%d][%d] = %.9g, wanted %.9g within %.2g", what, r, c, got, wanted, bound);
}

/* No primitive touches what lies beyond the padding. */
static inline void expect_untouched_beyond_padding(const char *what, tile t) {
  for (int r = 0; r < t.rows; r++)
    for (int c = padded(t.cols); c < t.ld; c++) expect_same(what, r, c, *at(t, r, c), NAN);
}

static inline float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Runs the tests for each instruction set that this processor has; the number that failed. */
static inline int run_for_each_instruction_set(const struct CMUnitTest *tests, size_t count) {
  const char *names[] = {"baseline", "avx2", "avx512"};
  int failed = 0;
  for (int i = 0; i < 3; i++) {
    ops = cpu_ops_named(names[i]);
    if (ops) failed += _cmocka_run_group_tests(names[i], tests, count, NULL, NULL);
  }
  return failed;
}

#endif
