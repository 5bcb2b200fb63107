/* cpu_vector.h: one vector register of floats, as wide as the compiler's -m flags allow, written
   with the vector extensions of GCC and clang: a scalar operand of + - * is repeated in every lane.
   Only cpu_ops.c may include this, since all of it needs the instructions that -m allows. */
#ifndef FAGEN_RUNTIME_CPU_VECTOR_H
#define FAGEN_RUNTIME_CPU_VECTOR_H

#include <stdint.h>

#if defined(__AVX512F__)
#define VEC_LANES 16
#define VEC_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define VEC_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
#define VEC_LANES 8
#define VEC_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define VEC_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define VEC_LANES 4
#define VEC_LOW 0, 4, 1, 5
#define VEC_HIGH 2, 6, 3, 7
#endif

#if defined(__AVX2__)
#if !defined(__FMA__) || !defined(__F16C__)
#error "the avx2 and avx512 tables need -mfma -mf16c"
#endif
#include <immintrin.h>
#elif defined(__ARM_FEATURE_FMA) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

typedef float vec __attribute__((vector_size(4 * VEC_LANES)));
typedef int32_t vec_int __attribute__((vector_size(4 * VEC_LANES)));
typedef uint32_t vec_bits __attribute__((vector_size(4 * VEC_LANES)));
typedef uint16_t vec_half __attribute__((vector_size(2 * VEC_LANES)));

/* The same in memory, where only the alignment of an element is promised. */
typedef float vec_memory __attribute__((vector_size(4 * VEC_LANES), aligned(4), may_alias));
typedef uint16_t vec_half_memory __attribute__((vector_size(2 * VEC_LANES), aligned(2), may_alias));

/* Inlined so that arguments which are constants at the call fold away. */
#define INLINE static inline __attribute__((always_inline))

INLINE vec vec_load(const float *from) {
  return *(const vec_memory *)from;
}

INLINE void vec_store(float *to, vec x) {
  *(vec_memory *)to = x;
}

/* x in every lane: minus 0, since plus 0 would turn -0 into 0. */
INLINE vec vec_all(float x) {
  return x - (vec){0};
}

/* a b + c, rounded once where the processor can. Asked for by name, since a compiler that fuses as
   it pleases gives results that depend on where in a tile an element stands. */
INLINE vec vec_fma(vec a, vec b, vec c) {
#if VEC_LANES == 16
  return _mm512_fmadd_ps(a, b, c);
#elif VEC_LANES == 8
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__ARM_FEATURE_FMA) && defined(__ARM_NEON)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

/* yes where the mask of a comparison is set, else no. */
INLINE vec_bits vec_select_bits(vec_int mask, vec_bits yes, vec_bits no) {
  return ((vec_bits)mask & yes) | (~(vec_bits)mask & no);
}

INLINE vec vec_select(vec_int mask, vec yes, vec no) {
  return (vec)vec_select_bits(mask, (vec_bits)yes, (vec_bits)no);
}

/* a0 b0 a1 b1 ..., from the first or from the second halves. */
#if defined(__clang__) || __GNUC__ >= 12
INLINE vec vec_interleave_low(vec a, vec b) {
  return __builtin_shufflevector(a, b, VEC_LOW);
}
INLINE vec vec_interleave_high(vec a, vec b) {
  return __builtin_shufflevector(a, b, VEC_HIGH);
}
#else
INLINE vec vec_interleave_low(vec a, vec b) {
  return __builtin_shuffle(a, b, (vec_int){VEC_LOW});
}
INLINE vec vec_interleave_high(vec a, vec b) {
  return __builtin_shuffle(a, b, (vec_int){VEC_HIGH});
}
#endif

/* The sum of the lanes in one fixed tree: each round adds the halves and doubles every result. */
INLINE float vec_sum(vec x) {
  for (int n = 1; n < VEC_LANES; n *= 2) x = vec_interleave_low(x, x) + vec_interleave_high(x, x);
  return x[0];
}

/* The larger lane by lane; b where either is NaN. Compilers make one instruction of this loop, and
   three of a selection. */
INLINE vec vec_max(vec a, vec b) {
  vec larger;
  for (int i = 0; i < VEC_LANES; i++) larger[i] = a[i] > b[i] ? a[i] : b[i];
  return larger;
}

INLINE float vec_largest(vec x) {
  for (int n = 1; n < VEC_LANES; n *= 2)
    x = vec_max(vec_interleave_low(x, x), vec_interleave_high(x, x));
  return x[0];
}

/* Columns of a tile with the padding that primitives may touch. */
INLINE int padded(int cols) {
  return (cols + FA_CPU_PAD - 1) / FA_CPU_PAD * FA_CPU_PAD;
}

#endif
