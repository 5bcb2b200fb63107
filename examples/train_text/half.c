/* half.c: between f32 and the two 16-bit types, rounding to the nearest, ties to even. */
#include "half.h"

#include <string.h>

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

enum {
  F32_INFINITY = 0x7f800000,
  F16_OVERFLOW = 0x477ff000, /* 65520, from where on f16 rounds to infinity */
  F16_SMALLEST = 0x38800000, /* 2^-14, the smallest normal f16 */
  REBIAS = (127 - 15) << 23
};

uint16_t f16_from(float x) {
  uint32_t magnitude = bits_of(x) & 0x7fffffff, sign = bits_of(x) >> 16 & 0x8000;
  if (magnitude > F32_INFINITY) return 0x7e00;
  if (magnitude >= F16_OVERFLOW) return (uint16_t)(sign | 0x7c00);
  if (magnitude <
      F16_SMALLEST) /* the unit of 0.5 is 2^-24, that of a subnormal f16: adding rounds */
    return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return (uint16_t)(sign | (magnitude - REBIAS) >> 13);
}

float f16_to(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) return float_of(sign | F32_INFINITY | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return float_of(sign | ((magnitude << 13) + REBIAS));
  float value = (float)magnitude * 0x1p-24f;
  return sign ? -value : value;
}

uint16_t bf16_from(float x) {
  uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffff) > F32_INFINITY) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float bf16_to(uint16_t half) {
  return float_of((uint32_t)half << 16);
}
