/* storage.c: rounding and bit patterns of the storage types, by arithmetic on doubles, so that no
   conversion of the kernels is trusted here. */
#include "storage.h"

#include "fagen.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A format with `fraction` stored bits of the significand. */
typedef struct format {
  int fraction, min_exponent, max_exponent;
} format;

static format format_of(int dtype) {
  static const format f16 = {10, -14, 15}, bf16 = {7, -126, 127}, f32 = {23, -126, 127};
  return dtype == FA_F16 ? f16 : dtype == FA_BF16 ? bf16 : f32;
}

double storage_round(double value, int dtype) {
  if (dtype == STORAGE_I32) return fmin(fmax(rint(value), INT32_MIN), INT32_MAX);
  format f = format_of(dtype);
  if (value == 0 || !isfinite(value)) return value;
  int exponent = ilogb(value);
  if (exponent < f.min_exponent) exponent = f.min_exponent; /* subnormal: the quantum stays */
  double rounded = ldexp(rint(ldexp(value, f.fraction - exponent)), exponent - f.fraction);
  if (fabs(rounded) >= ldexp(1, f.max_exponent + 1)) return copysign(INFINITY, value);
  return rounded;
}

size_t storage_bytes(int dtype) {
  return dtype == FA_F32 || dtype == STORAGE_I32 ? 4 : 2;
}

static uint16_t f16_bits(double rounded) {
  uint16_t sign = signbit(rounded) ? 0x8000 : 0;
  double magnitude = fabs(rounded);
  if (isnan(rounded)) return 0x7e00;
  if (isinf(rounded)) return sign | 0x7c00;
  if (magnitude < ldexp(1, -14)) return sign | (uint16_t)ldexp(magnitude, 24);
  int exponent = ilogb(magnitude);
  int fraction = (int)ldexp(magnitude, 10 - exponent) - 1024;
  return sign | (uint16_t)((exponent + 15) * 1024 + fraction);
}

static double f16_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
  return bits & 0x8000 ? -magnitude : magnitude;
}

void storage_write(void *at, double value, int dtype) {
  double rounded = storage_round(value, dtype);
  if (dtype == STORAGE_I32) {
    int32_t whole = (int32_t)rounded;
    memcpy(at, &whole, 4);
    return;
  }
  float wide = (float)rounded; /* exact but for NaN */
  uint32_t word;
  memcpy(&word, &wide, 4);
  uint16_t half = dtype == FA_F16 ? f16_bits(rounded) : (uint16_t)(word >> 16);
  if (dtype == FA_F32)
    memcpy(at, &word, 4);
  else
    memcpy(at, &half, 2);
}

double storage_read(const void *at, int dtype) {
  uint32_t word;
  uint16_t half;
  float value;
  int32_t whole;
  if (dtype == STORAGE_I32) {
    memcpy(&whole, at, 4);
    return whole;
  }
  if (dtype == FA_F32) {
    memcpy(&value, at, 4);
    return value;
  }
  memcpy(&half, at, 2);
  if (dtype == FA_F16) return f16_value(half);
  word = (uint32_t)half << 16;
  memcpy(&value, &word, 4);
  return value;
}
