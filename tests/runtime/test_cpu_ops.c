/* test_cpu_ops.c: the arithmetic of the cpu primitives, for every instruction set that this
   processor has, against plain loops in double. Padding is filled with NaN wherever it must not
   matter. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_tiles.h"

/* ---- matmul ---------------------------------------------------------------------------------- */

/* Whether multiply-adds round once: they must where there is an instruction for it; the baseline
 * may. */
static int fused(void) {
  float a[FA_CPU_PAD] = {1 + 0x1p-12f}, c[FA_CPU_PAD] = {-1 - 0x1p-11f};
  ops->matmul(c, FA_CPU_PAD, a, FA_CPU_PAD, 1, a, FA_CPU_PAD, 1, 1, 1, 1);
  return ops != cpu_ops_named("baseline") || c[0] == 0x1p-24f;
}

/* What the contract promises to the bit: one chain over ascending k. */
static float chain(float start, tile a, int transposed, tile b, int r, int c, int k, int fuse) {
  float sum = start;
  for (int p = 0; p < k; p++) {
    float x = transposed ? *at(a, p, r) : *at(a, r, p), y = *at(b, p, c);
    volatile float product = x * y;
    sum = fuse ? fmaf(x, y, sum) : sum + product;
  }
  return sum;
}

static void check_matmul(int m, int n, int k, int transposed, int accumulate) {
  tile a = transposed ? random_tile(k, m, -1, 1) : random_tile(m, k, -1, 1);
  tile b = random_tile(k, n, -1, 1), c = random_tile(m, n, -1, 1), before = tile_copy(c);
  ops->matmul(c.data, c.ld, a.data, transposed ? 1 : a.ld, transposed ? a.ld : 1, b.data, b.ld, m,
              n, k, accumulate);
  int fuse = fused();
  for (int i = 0; i < m; i++) {
    for (int j = 0; j < n; j++) {
      float start = accumulate ? *at(before, i, j) : 0;
      double sum = start, size = fabs(sum);
      for (int p = 0; p < k; p++) {
        double x = transposed ? *at(a, p, i) : *at(a, i, p), y = *at(b, p, j);
        sum += x * y;
        size += fabs(x * y);
      }
      expect_close("matmul", i, j, *at(c, i, j), sum, (k + 1) * size * FLT_EPSILON);
      expect_same("matmul chain", i, j, *at(c, i, j),
                  chain(start, a, transposed, b, i, j, k, fuse));
    }
  }
  expect_untouched_beyond_padding("matmul", c);
  free(a.data);
  free(b.data);
  free(c.data);
  free(before.data);
}

static void matmul_is_one_ascending_chain_for_every_element(void **state) {
  (void)state;
  for (int i = 0; i < 200; i++)
    check_matmul(random_int(1, 70), random_int(1, 70), random_int(0, 70), random_int(0, 1),
                 random_int(0, 1));
  for (int m = 1; m <= 17; m++) check_matmul(m, 16 * (m % 5 + 1), 8, m % 2, 0);
  check_matmul(128, 128, 256, 0, 0);
  check_matmul(128, 128, 128, 1, 1);
}

/* A row and a column give one value wherever they stand, whatever stands around them. */
static void matmul_does_not_depend_on_the_position(void **state) {
  (void)state;
  enum { K = 50, M = 23, N = 70 };
  tile a = random_tile(M, K, -1, 1), b = random_tile(K, N, -1, 1), c = tile_of(M, N);
  tile row = random_tile(1, K, -1, 1), column = random_tile(K, 1, -1, 1), alone = tile_of(1, 1);
  ops->matmul(alone.data, alone.ld, row.data, row.ld, 1, column.data, column.ld, 1, 1, K, 0);
  for (int i = 0; i < M; i++) {
    memcpy(at(a, i, 0), row.data, K * sizeof(float));
    for (int j = 0; j < N; j++) {
      for (int p = 0; p < K; p++) *at(b, p, j) = *at(column, p, 0);
      ops->matmul(c.data, c.ld, a.data, a.ld, 1, b.data, b.ld, M, N, K, 0);
      expect_same("c", i, j, *at(c, i, j), *alone.data);
      for (int p = 0; p < K; p++) *at(b, p, j) = random_float(-1, 1);
    }
    for (int p = 0; p < K; p++) *at(a, i, p) = random_float(-1, 1);
  }
  tile all[] = {a, b, c, row, column, alone};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i].data);
}

static void matmul_in_two_parts_equals_one(void **state) {
  (void)state;
  enum { M = 13, N = 40, K = 64, CUT = 27 };
  tile a = random_tile(M, K, -1, 1), b = random_tile(K, N, -1, 1);
  tile whole = tile_of(M, N), parts = tile_of(M, N);
  ops->matmul(whole.data, whole.ld, a.data, a.ld, 1, b.data, b.ld, M, N, K, 0);
  ops->matmul(parts.data, parts.ld, a.data, a.ld, 1, b.data, b.ld, M, N, CUT, 0);
  ops->matmul(parts.data, parts.ld, at(a, 0, CUT), a.ld, 1, at(b, CUT, 0), b.ld, M, N, K - CUT, 1);
  for (int r = 0; r < M; r++)
    for (int c = 0; c < N; c++) expect_same("parts", r, c, *at(parts, r, c), *at(whole, r, c));
  free(a.data);
  free(b.data);
  free(whole.data);
  free(parts.data);
}

/* Strides of a that are neither 1: every second row and every third column. */
static void matmul_reads_a_by_any_strides(void **state) {
  (void)state;
  enum { M = 11, N = 20, K = 9 };
  tile a = random_tile(2 * M, 3 * K, -1, 1), b = random_tile(K, N, -1, 1), c = tile_of(M, N);
  ops->matmul(c.data, c.ld, a.data, 2 * a.ld, 3, b.data, b.ld, M, N, K, 0);
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      double sum = 0;
      for (int p = 0; p < K; p++) sum += (double)*at(a, 2 * i, 3 * p) * *at(b, p, j);
      expect_close("c", i, j, *at(c, i, j), sum, K * FLT_EPSILON * K);
    }
  }
  free(a.data);
  free(b.data);
  free(c.data);
}

/* ---- The exponential, through probabilities with lse = 0 ------------------------------------- */

static float exponential(float x) {
  float row[FA_CPU_PAD] = {x}, lse = 0;
  ops->probabilities(row, FA_CPU_PAD, 1, 1, &lse);
  return row[0];
}

static double ulps_off(float got, double wanted) {
  int exponent;
  frexp(wanted, &exponent);
  return fabs(got - wanted) / ldexp(1, exponent - 24);
}

static void exponential_is_right_to_one_ulp(void **state) {
  (void)state;
  double worst = 0, worst_at = 0;
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 1009) {
    for (int negative = 0; negative <= 1; negative++) {
      float x = float_of_bits(bits | (uint32_t)negative << 31);
      if (x < -87.3f || x > 88.3f) continue;
      double ulps = ulps_off(exponential(x), exp(x));
      if (ulps > worst) worst = ulps, worst_at = x;
    }
  }
  print_message("           exp: at most %.3f ulp off, at %a\n", worst, worst_at);
  if (!(worst <= 1)) fail_msg("%.3f ulp at %a", worst, worst_at);
}

static void exponential_has_the_right_ends(void **state) {
  (void)state;
  expect_same("exp(0)", 0, 0, exponential(0), 1);
  expect_same("exp(-0)", 0, 0, exponential(-0.0f), 1);
  expect_same("exp(-inf)", 0, 0, exponential(-INFINITY), 0);
  expect_same("exp(-89)", 0, 0, exponential(-89), 0);
  expect_same("exp(-1.4e11)", 0, 0, exponential(-1.4e11f), 0);
  expect_same("exp(-max)", 0, 0, exponential(-FLT_MAX), 0);
  expect_same("exp(89)", 0, 0, exponential(89), INFINITY);
  expect_same("exp(max)", 0, 0, exponential(FLT_MAX), INFINITY);
  expect_same("exp(inf)", 0, 0, exponential(INFINITY), INFINITY);
  for (uint32_t payload = 1; payload < 1u << 23; payload += 77777) {
    expect_same("exp(nan)", 0, 0, exponential(float_of_bits(0x7f800000 | payload)), NAN);
    expect_same("exp(-nan)", 0, 0, exponential(float_of_bits(0xff800000 | payload)), NAN);
  }
}

/* ---- Online softmax -------------------------------------------------------------------------- */

typedef struct softmax_state {
  tile o;
  float row_max[64], row_sum[64], lse[64];
} softmax_state;

static void softmax_begin(softmax_state *s, int rows, int dim_v) {
  s->o = tile_of(rows, dim_v);
  for (int r = 0; r < rows; r++) {
    s->row_max[r] = -INFINITY;
    s->row_sum[r] = 0;
    for (int c = 0; c < dim_v; c++) *at(s->o, r, c) = 0;
  }
}

static void softmax_step(softmax_state *s, tile scores, tile v) {
  tile p = tile_copy(scores);
  ops->online_softmax(p.data, p.ld, p.rows, p.cols, s->row_max, s->row_sum, s->o.data, s->o.ld,
                      s->o.cols);
  expect_untouched_beyond_padding("p", p);
  ops->matmul(s->o.data, s->o.ld, p.data, p.ld, 1, v.data, v.ld, p.rows, s->o.cols, p.cols, 1);
  free(p.data);
}

static void softmax_finish(softmax_state *s) {
  ops->softmax_end(s->o.data, s->o.ld, s->o.rows, s->o.cols, s->row_max, s->row_sum, s->lse);
  expect_untouched_beyond_padding("o", s->o);
}

/* The keys of all tiles in two passes: maximum, then sums. */
static void check_row(const softmax_state *s, const tile *scores, const tile *v, int tiles, int r) {
  double largest = -INFINITY, sum = 0;
  for (int t = 0; t < tiles; t++)
    for (int j = 0; j < scores[t].cols; j++) largest = fmax(largest, *at(scores[t], r, j));
  for (int t = 0; t < tiles && largest > -INFINITY; t++)
    for (int j = 0; j < scores[t].cols; j++) sum += exp(*at(scores[t], r, j) - largest);
  if (sum == 0)
    expect_same("lse", r, 0, s->lse[r], -INFINITY);
  else
    expect_close("lse", r, 0, s->lse[r], largest + log(sum), 1e-6 * (1 + fabs(largest)));
  for (int c = 0; c < s->o.cols; c++) {
    double o = 0;
    for (int t = 0; t < tiles && sum > 0; t++)
      for (int j = 0; j < scores[t].cols; j++)
        o += exp(*at(scores[t], r, j) - largest) / sum * *at(v[t], j, c);
    expect_close("o", r, c, *at(s->o, r, c), o, sum == 0 ? 0 : 2e-6);
  }
}

static void check_softmax(int rows, int dim_v, int tiles, float spread) {
  softmax_state s;
  tile scores[4], v[4];
  softmax_begin(&s, rows, dim_v);
  for (int t = 0; t < tiles; t++) {
    int keys = random_int(1, 70);
    scores[t] = random_tile(rows, keys, -spread, spread);
    v[t] = random_tile(keys, dim_v, -1, 1);
    for (int r = 0; r < rows; r++) {
      int whole_row = random_int(0, 3) == 0;
      for (int j = 0; j < keys; j++)
        if (r == 0 || whole_row || random_int(0, 4) == 0) *at(scores[t], r, j) = -INFINITY;
    }
    softmax_step(&s, scores[t], v[t]);
  }
  softmax_finish(&s);
  for (int r = 0; r < rows; r++) check_row(&s, scores, v, tiles, r);
  for (int t = 0; t < tiles; t++) free(scores[t].data), free(v[t].data);
  free(s.o.data);
}

static void online_softmax_agrees_with_two_passes(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++)
    check_softmax(random_int(1, 64), random_int(1, 70), random_int(1, 4),
                  random_int(0, 1) ? 3 : 60);
}

/* A fully masked first tile must leave no trace in the maximum, however low the later scores are.
 */
static void masked_first_tile_does_not_hide_low_scores(void **state) {
  (void)state;
  enum { KEYS = 33 };
  softmax_state s;
  tile masked = tile_of(1, KEYS), low = tile_of(1, KEYS);
  tile v = random_tile(KEYS, 8, -1, 1);
  for (int j = 0; j < KEYS; j++) *at(masked, 0, j) = -INFINITY, *at(low, 0, j) = -100;
  softmax_begin(&s, 1, 8);
  softmax_step(&s, masked, v);
  expect_same("row_max", 0, 0, s.row_max[0], -INFINITY);
  expect_same("row_sum", 0, 0, s.row_sum[0], 0);
  softmax_step(&s, low, v);
  expect_same("row_max", 0, 0, s.row_max[0], -100);
  expect_same("row_sum", 0, 0, s.row_sum[0], KEYS);
  softmax_step(&s, masked, v);
  softmax_finish(&s);
  tile both[] = {masked, low}, values[] = {v, v};
  check_row(&s, both, values, 2, 0);
  free(masked.data);
  free(low.data);
  free(v.data);
  free(s.o.data);
}

static void largest_of_huge_scores_weighs_exactly_one(void **state) {
  (void)state;
  float s[FA_CPU_PAD] = {1.4e11f, 1.3e11f, 1.4e11f, -1.4e11f, -INFINITY, 0};
  float o[FA_CPU_PAD] = {0}, row_max = -INFINITY, row_sum = 0;
  const float wanted[FA_CPU_PAD] = {1, 0, 1, 0, 0, 0};
  ops->online_softmax(s, FA_CPU_PAD, 1, 6, &row_max, &row_sum, o, FA_CPU_PAD, 8);
  for (int j = 0; j < 6; j++) expect_same("p", 0, j, s[j], wanted[j]);
  expect_same("row_max", 0, 0, row_max, 1.4e11f);
  expect_same("row_sum", 0, 0, row_sum, 2);
}

/* Also where all else is masked, and a maximum of -inf might be taken for "no key". */
static void nan_score_shows_in_its_row_alone(void **state) {
  (void)state;
  float s[3][FA_CPU_PAD] = {{0, NAN}, {-INFINITY, NAN}, {0, 0}};
  float o[3][FA_CPU_PAD] = {{0}}, lse[3];
  float row_max[3] = {-INFINITY, -INFINITY, -INFINITY}, row_sum[3] = {0};
  ops->online_softmax(s[0], FA_CPU_PAD, 3, 2, row_max, row_sum, o[0], FA_CPU_PAD, 8);
  for (int r = 0; r < 3; r++) o[r][0] = 2;
  ops->softmax_end(o[0], FA_CPU_PAD, 3, 8, row_max, row_sum, lse);
  for (int r = 0; r < 2; r++) {
    expect_same("p", r, 1, s[r][1], NAN);
    expect_same("o", r, 0, o[r][0], NAN);
    expect_same("lse", r, 0, lse[r], NAN);
  }
  expect_same("o", 2, 0, o[2][0], 1);
  expect_close("lse", 2, 0, lse[2], log(2), 1e-7);
}

/* ---- Backward, row by row -------------------------------------------------------------------- */

static void probabilities_are_zero_where_nothing_is_visible(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++) {
    int rows = random_int(1, 20), keys = random_int(1, 50);
    tile s = random_tile(rows, keys, -30, 30), p = tile_copy(s);
    float lse[20];
    for (int r = 0; r < rows; r++) lse[r] = random_float(28, 40);
    lse[random_int(0, rows - 1)] = -INFINITY;
    lse[random_int(0, rows - 1)] = NAN;
    for (int r = 0; r < rows; r++)
      if (r % 4 != 2) *at(s, r, r % keys) = *at(p, r, r % keys) = -INFINITY;
    ops->probabilities(p.data, p.ld, rows, keys, lse);
    for (int r = 0; r < rows; r++) {
      for (int c = 0; c < keys; c++) {
        int hidden = lse[r] == -INFINITY || *at(s, r, c) == -INFINITY;
        double wanted = hidden ? 0 : exp(*at(s, r, c) - lse[r]);
        if (isnan(wanted))
          expect_same("p", r, c, *at(p, r, c), NAN);
        else
          expect_close("p", r, c, *at(p, r, c), wanted, 1.2e-7 * wanted);
      }
    }
    expect_untouched_beyond_padding("p", p);
    free(s.data);
    free(p.data);
  }
}

static void score_gradient_selects_zero(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++) {
    int rows = random_int(1, 20), keys = random_int(1, 50);
    tile dp = random_tile(rows, keys, -3, 3), p = tile_of(rows, keys), before;
    float d[20];
    free(p.data);
    p = tile_copy(dp); /* the two share one ld */
    for (int r = 0; r < rows; r++) {
      d[r] = r % 5 == 3 ? INFINITY : random_float(-1, 1);
      for (int c = 0; c < keys; c++)
        *at(p, r, c) = r % 5 == 3 || random_int(0, 2) == 0 ? 0 : random_float(0, 1);
      if (*at(p, r, 0) == 0) *at(dp, r, 0) = NAN;
    }
    before = tile_copy(dp);
    ops->score_gradient(dp.data, p.data, dp.ld, rows, keys, d);
    for (int r = 0; r < rows; r++) {
      for (int c = 0; c < keys; c++) {
        float wanted = *at(p, r, c) == 0 ? 0 : *at(p, r, c) * (*at(before, r, c) - d[r]);
        expect_same("ds", r, c, *at(dp, r, c), wanted);
      }
    }
    expect_untouched_beyond_padding("ds", dp);
    free(dp.data);
    free(p.data);
    free(before.data);
  }
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { TURNS = 20000 };

typedef struct ping_pong {
  int ping, pong;
  long long message; /* plain memory: only await and advance order the two threads */
} ping_pong;

static void *answer(void *argument) {
  ping_pong *p = argument;
  for (int turn = 1; turn <= TURNS; turn++) {
    ops->await(&p->ping, turn);
    p->message = 3 * p->message + 1;
    ops->advance(&p->pong, turn);
  }
  return NULL;
}

static void await_sees_what_was_written_before_advance(void **state) {
  (void)state;
  ping_pong p = {0, 0, 0};
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, answer, &p), 0);
  for (int turn = 1; turn <= TURNS; turn++) {
    p.message = turn;
    ops->advance(&p.ping, turn);
    ops->await(&p.pong, turn);
    if (p.message != 3 * turn + 1) fail_msg("turn %d: read %lld", turn, p.message);
  }
  pthread_join(other, NULL);
}

/* ---- Choice ---------------------------------------------------------------------------------- */

static void best_is_one_of_the_named(void **state) {
  (void)state;
  const char *name = NULL;
  const fa_cpu_ops *best = cpu_ops_best(&name);
  assert_non_null(best);
  assert_ptr_equal(cpu_ops_named(name), best);
  assert_ptr_equal(cpu_ops_best(NULL), best);
  assert_non_null(cpu_ops_named("baseline"));
  assert_null(cpu_ops_named("avx1024"));
  assert_null(cpu_ops_named(""));
  print_message("           best: %s\n", name);
}

int main(void) {
  const struct CMUnitTest choice[] = {cmocka_unit_test(best_is_one_of_the_named)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matmul_is_one_ascending_chain_for_every_element),
      cmocka_unit_test(matmul_does_not_depend_on_the_position),
      cmocka_unit_test(matmul_in_two_parts_equals_one),
      cmocka_unit_test(matmul_reads_a_by_any_strides),
      cmocka_unit_test(exponential_is_right_to_one_ulp),
      cmocka_unit_test(exponential_has_the_right_ends),
      cmocka_unit_test(online_softmax_agrees_with_two_passes),
      cmocka_unit_test(masked_first_tile_does_not_hide_low_scores),
      cmocka_unit_test(largest_of_huge_scores_weighs_exactly_one),
      cmocka_unit_test(nan_score_shows_in_its_row_alone),
      cmocka_unit_test(probabilities_are_zero_where_nothing_is_visible),
      cmocka_unit_test(score_gradient_selects_zero),
      cmocka_unit_test(await_sees_what_was_written_before_advance),
  };
  int failed = cmocka_run_group_tests_name("choice", choice, NULL, NULL);
  failed += run_for_each_instruction_set(tests, sizeof tests / sizeof tests[0]);
  return failed != 0;
}
