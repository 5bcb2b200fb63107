/* test_cpu_convert.c: the cpu primitives that move data: conversions against the definition of each
   format, transposition, dot products of rows, clearing. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_tiles.h"

/* ---- Conversions ----------------------------------------------------------------------------- */

typedef void (*load_fn)(float *, long long, const void *, long long, int, int, float);
typedef void (*store_fn)(void *, long long, const float *, long long, int, int, float);
typedef void (*dot_fn)(float *, const void *, long long, const void *, long long, int, int);

typedef struct format {
  const char *name;
  int bytes, precision, min_exponent, max_exponent; /* of the 16-bit formats, as IEEE 754 says it */
  load_fn load;
  store_fn store;
  dot_fn dot_rows;
} format;

enum { FORMATS = 3 };

static format format_of(int i) {
  const format all[FORMATS] = {
      {"f16", 2, 11, -14, 15, ops->load_f16, ops->store_f16, ops->dot_rows_f16},
      {"bf16", 2, 8, -126, 127, ops->load_bf16, ops->store_bf16, ops->dot_rows_bf16},
      {"f32", 4, 24, -126, 127, ops->load_f32, ops->store_f32, ops->dot_rows_f32},
  };
  return all[i];
}

/* The value of a 16-bit pattern, by the book. */
static double value_of(format f, unsigned bits) {
  int fraction_bits = f.precision - 1;
  unsigned fraction = bits & ((1u << fraction_bits) - 1),
           exponent = (bits & 0x7fff) >> fraction_bits;
  double sign = bits & 0x8000 ? -1 : 1;
  if ((int)exponent == 2 * f.max_exponent + 1) return fraction ? NAN : sign * INFINITY;
  double significand = exponent ? (1 << fraction_bits) + (double)fraction : fraction;
  return sign * ldexp(significand, (exponent ? (int)exponent : 1) - f.max_exponent - fraction_bits);
}

/* x rounded to nearest even in the format. */
static double rounded(format f, double x) {
  int exponent;
  if (x == 0 || !isfinite(x)) return x;
  frexp(x, &exponent);
  if (exponent - 1 < f.min_exponent) exponent = f.min_exponent + 1;
  double r = ldexp(nearbyint(ldexp(x, f.precision - exponent)), exponent - f.precision);
  return fabs(r) >= ldexp(1, f.max_exponent + 1) ? copysign(INFINITY, x) : r;
}

static void every_16_bit_value_loads_and_comes_back(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    format f = format_of(i);
    for (unsigned first = 0; first < 65536; first += 64) {
      uint16_t in[64], out[64];
      float row[64];
      for (unsigned j = 0; j < 64; j++) in[j] = (uint16_t)(first + j);
      f.load(row, 64, in, 64, 1, 64, 1);
      f.store(out, 64, row, 64, 1, 64, 1);
      for (unsigned j = 0; j < 64; j++) {
        expect_same(f.name, (int)(first + j), 0, row[j], (float)value_of(f, first + j));
        int ok = isnan(row[j]) ? isnan(value_of(f, out[j])) : out[j] == in[j];
        if (!ok) fail_msg("%s: 0x%04x came back as 0x%04x", f.name, in[j], out[j]);
      }
    }
  }
}

static float stored(format f, float x) {
  float row[FA_CPU_PAD] = {x};
  uint16_t bits;
  f.store(&bits, 1, row, FA_CPU_PAD, 1, 1, 1);
  return (float)value_of(f, bits);
}

/* Around every value and every tie between neighbours, the one past the largest number included. */
static void stores_round_to_nearest_even(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    format f = format_of(i);
    for (unsigned bits = 0; bits < 65536; bits++) {
      double value = value_of(f, bits), next = value_of(f, bits + 1);
      if (!isfinite(value)) continue;
      if (isinf(next)) next = copysign(ldexp(1, f.max_exponent + 1), value);
      float tie = (float)(value + (next - value) / 2);
      const float points[] = {tie, nextafterf(tie, INFINITY), nextafterf(tie, -INFINITY)};
      for (int j = 0; j < 3; j++)
        expect_same(f.name, (int)bits, j, stored(f, points[j]), (float)rounded(f, points[j]));
    }
    for (int j = 0; j < 200000; j++) {
      float x = float_of_bits(random_bits());
      expect_same(f.name, 0, j, stored(f, x), (float)rounded(f, x));
    }
  }
}

static void loads_and_stores_keep_to_the_tensor(void **state) {
  (void)state;
  for (int i = 0; i < 600; i++) {
    format f = format_of(i % FORMATS);
    int rows = random_int(1, 9), cols = random_int(1, 50), stride = cols + random_int(0, 9);
    float scale = random_float(-2, 2);
    size_t count = (size_t)((rows - 1) * stride + cols); /* not one element more */
    unsigned char *src = malloc(count * (size_t)f.bytes), *dst = malloc(count * (size_t)f.bytes);
    tile in = random_tile(1, (int)count, -3, 3), t = tile_of(rows, cols),
         back = tile_of(1, (int)count);
    f.store(src, 0, in.data, in.ld, 1, (int)count, 1);
    f.load(t.data, t.ld, src, stride, rows, cols, scale);
    for (int r = 0; r < rows; r++) {
      for (int c = 0; c < cols; c++) {
        double value = rounded(f, *at(in, 0, r * stride + c));
        expect_same(f.name, r, c, *at(t, r, c), scale * (float)value);
      }
      for (int c = cols; c < padded(cols); c++) expect_close("padding", r, c, *at(t, r, c), 0, 0);
    }
    expect_untouched_beyond_padding("loaded", t);
    memset(dst, 0x55, count * (size_t)f.bytes);
    f.store(dst, stride, t.data, t.ld, rows, cols, scale);
    f.load(back.data, back.ld, dst, 0, 1, (int)count, 1);
    for (int j = 0; j < (int)count; j++) {
      int r = j / stride, c = j % stride;
      if (c < cols)
        expect_same(f.name, r, c, *at(back, 0, j), (float)rounded(f, scale * *at(t, r, c)));
      else if (dst[j * f.bytes] != 0x55 || dst[j * f.bytes + 1] != 0x55)
        fail_msg("%s: wrote between the rows, at [%d][%d]", f.name, r, c);
    }
    free(src);
    free(dst);
    free(in.data);
    free(t.data);
    free(back.data);
  }
}

static void dot_rows_agrees_with_double_loops(void **state) {
  (void)state;
  for (int i = 0; i < 300; i++) {
    format f = format_of(i % FORMATS);
    int cols = random_int(1, 140);
    tile x = random_tile(2, cols, -2, 2);
    unsigned char *a = malloc((size_t)(2 * cols * f.bytes)), *b = malloc((size_t)(cols * f.bytes));
    float out[2];
    f.store(a, cols, x.data, x.ld, 2, cols, 1);
    f.store(b, cols, x.data, x.ld, 1, cols, -0.7f);
    f.dot_rows(out, a, cols, b, 0, 2, cols); /* a stride of 0 repeats one row */
    for (int r = 0; r < 2; r++) {
      double sum = 0, size = 0;
      for (int c = 0; c < cols; c++) {
        double y = rounded(f, -0.7f * *at(x, 0, c));
        sum += rounded(f, *at(x, r, c)) * y;
        size += fabs(rounded(f, *at(x, r, c)) * y);
      }
      expect_close(f.name, r, 0, out[r], sum, size * FLT_EPSILON * (cols + 1));
    }
    free(a);
    free(b);
    free(x.data);
  }
}

static void transpose_moves_every_element(void **state) {
  (void)state;
  for (int i = 0; i < 300; i++) {
    int rows = random_int(1, 70), cols = random_int(1, 70);
    tile from = random_tile(rows, cols, -1, 1), to = tile_of(cols, rows);
    ops->transpose(to.data, to.ld, from.data, from.ld, rows, cols);
    for (int c = 0; c < cols; c++)
      for (int r = 0; r < padded(rows); r++)
        expect_same("to", c, r, *at(to, c, r), r < rows ? *at(from, r, c) : 0);
    expect_untouched_beyond_padding("to", to);
    free(from.data);
    free(to.data);
  }
}

static void zero_clears_just_the_bytes(void **state) {
  (void)state;
  unsigned char memory[100];
  for (int bytes = 0; bytes < 99; bytes++) {
    memset(memory, 0x55, sizeof memory);
    ops->zero(memory + 1, bytes);
    for (int i = 0; i < 100; i++) assert_int_equal(memory[i], i >= 1 && i <= bytes ? 0 : 0x55);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_16_bit_value_loads_and_comes_back),
      cmocka_unit_test(stores_round_to_nearest_even),
      cmocka_unit_test(loads_and_stores_keep_to_the_tensor),
      cmocka_unit_test(dot_rows_agrees_with_double_loops),
      cmocka_unit_test(transpose_moves_every_element),
      cmocka_unit_test(zero_clears_just_the_bytes),
  };
  return run_for_each_instruction_set(tests, sizeof tests / sizeof tests[0]) != 0;
}
