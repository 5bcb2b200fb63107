/* cpu_convert.inc.c: tiles to and from tensors of f32, f16 and bf16, dot products of their rows,
   transposition of tiles. */

enum element { F32, F16, BF16 };

INLINE int element_bytes(enum element type) {
  return type == F32 ? 4 : 2;
}

/* ---- Formats --------------------------------------------------------------------------------- */

/* On x86 f16 has instructions of its own, which the vector extensions cannot name: two to seven
   times as fast as the arithmetic below. */
#if VEC_LANES == 16
INLINE vec f32_of_f16(vec_half x) {
  return (vec)_mm512_cvtph_ps((__m256i)x);
}
INLINE vec_half f16_of_f32(vec x) {
  return (vec_half)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
}

#elif VEC_LANES == 8
INLINE vec f32_of_f16(vec_half x) {
  return (vec)_mm256_cvtph_ps((__m128i)x);
}
INLINE vec_half f16_of_f32(vec x) {
  return (vec_half)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
}

#else

/* Terms of the formats: the bits of an f32, and the exponent bias of f16 against it. */
#define F32_SIGN 0x80000000u
#define F32_INFINITY 0x7f800000u
#define F16_BIAS ((127u - 15u) << 23)
#define F16_MIN_NORMAL ((127u - 14u) << 23)
#define F16_OVERFLOW ((127u + 16u) << 23) /* 2^16 */

INLINE vec f32_of_f16(vec_half half) {
  vec_bits x = __builtin_convertvector(half, vec_bits);
  vec_bits sign = (x & 0x8000) << 16, magnitude = (x & 0x7fff) << 13;
  /* A subnormal takes the exponent of 2^-14, whose implied one is then subtracted. */
  vec_bits subnormal = (vec_bits)((vec)(magnitude + F16_MIN_NORMAL) - 0x1p-14f);
  vec_bits normal = magnitude + F16_BIAS;
  vec_bits special = magnitude | F32_INFINITY;
  vec_bits finite = vec_select_bits(magnitude < 1u << 23, subnormal, normal);
  return (vec)(sign | vec_select_bits(magnitude >= 31u << 23, special, finite));
}

INLINE vec_half f16_of_f32(vec x) {
  vec_bits sign = (vec_bits)x & F32_SIGN, magnitude = (vec_bits)x ^ sign;
  /* To nearest even: below the 13 bits that go, just under a half, and the last bit that stays. A
     carry runs into the exponent, and from the largest finite number into infinity. */
  vec_bits odd = (magnitude >> 13) & 1;
  vec_bits normal = (magnitude - F16_BIAS + 0xfff + odd) >> 13;
  /* The last place of 0.5 is that of an f16 subnormal, so this addition rounds. */
  vec_bits subnormal = (vec_bits)((vec)magnitude + 0.5f) - (126u << 23);
  vec_bits finite = vec_select_bits(magnitude < F16_MIN_NORMAL, subnormal, normal);
  vec_bits nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  vec_bits special = vec_select_bits(magnitude > F32_INFINITY, nan, (vec_bits){0} + 0x7c00);
  vec_bits bits = sign >> 16 | vec_select_bits(magnitude >= F16_OVERFLOW, special, finite);
  return __builtin_convertvector(bits, vec_half);
}

#endif

INLINE vec f32_of_bf16(vec_half x) {
  return (vec)(__builtin_convertvector(x, vec_bits) << 16);
}

INLINE vec_half bf16_of_f32(vec x) {
  vec_bits bits = (vec_bits)x, odd = (bits >> 16) & 1;
  vec_bits nan = bits | 0x400000, rounded = bits + 0x7fff + odd;
  return __builtin_convertvector(vec_select_bits(x != x, nan, rounded) >> 16, vec_half);
}

/* ---- One vector of elements, whole or the first `count` -------------------------------------- */

INLINE vec load_elements(enum element type, const void *from) {
  if (type == F32) return vec_load(from);
  vec_half x = *(const vec_half_memory *)from;
  return type == F16 ? f32_of_f16(x) : f32_of_bf16(x);
}

INLINE void store_elements(enum element type, void *to, vec x) {
  if (type == F32)
    vec_store(to, x);
  else
    *(vec_half_memory *)to = type == F16 ? f16_of_f32(x) : bf16_of_f32(x);
}

/* A tensor ends where it ends: no element beyond the count is touched. The rest reads as 0. */
INLINE vec load_first(enum element type, const void *from, int count) {
  float copy[VEC_LANES] = {0};
  if (count > 0) memcpy(copy, from, (size_t)(count * element_bytes(type)));
  return load_elements(type, copy);
}

INLINE void store_first(enum element type, void *to, vec x, int count) {
  float copy[VEC_LANES];
  store_elements(type, copy, x);
  memcpy(to, copy, (size_t)(count * element_bytes(type)));
}

/* ---- Tensor to tile, tile to tensor ---------------------------------------------------------- */

INLINE void load_tile(enum element type, float *tile, long long ld, const void *src,
                      long long stride, int rows, int cols, float scale) {
  int bytes = element_bytes(type), c;
  for (int r = 0; r < rows; r++) {
    const char *from = (const char *)src + r * stride * bytes;
    float *to = tile + r * ld;
    for (c = 0; c + VEC_LANES <= cols; c += VEC_LANES)
      vec_store(to + c, scale * load_elements(type, from + c * bytes));
    for (; c < padded(cols); c += VEC_LANES)
      vec_store(to + c, scale * load_first(type, from + c * bytes, cols - c));
  }
}

INLINE void store_tile(enum element type, void *dst, long long stride, const float *tile,
                       long long ld, int rows, int cols, float scale) {
  int bytes = element_bytes(type), c;
  for (int r = 0; r < rows; r++) {
    char *to = (char *)dst + r * stride * bytes;
    const float *from = tile + r * ld;
    for (c = 0; c + VEC_LANES <= cols; c += VEC_LANES)
      store_elements(type, to + c * bytes, scale * vec_load(from + c));
    if (c < cols) store_first(type, to + c * bytes, scale * vec_load(from + c), cols - c);
  }
}

/* Lane by lane in ascending columns, then the fixed tree of vec_sum. */
INLINE void dot_rows(enum element type, float *out, const void *a, long long stride_a,
                     const void *b, long long stride_b, int rows, int cols) {
  int bytes = element_bytes(type), c;
  for (int r = 0; r < rows; r++) {
    const char *x = (const char *)a + r * stride_a * bytes;
    const char *y = (const char *)b + r * stride_b * bytes;
    vec sum = {0};
    for (c = 0; c + VEC_LANES <= cols; c += VEC_LANES)
      sum = vec_fma(load_elements(type, x + c * bytes), load_elements(type, y + c * bytes), sum);
    if (c < cols)
      sum = vec_fma(load_first(type, x + c * bytes, cols - c),
                    load_first(type, y + c * bytes, cols - c), sum);
    out[r] = vec_sum(sum);
  }
}

#define FOR_ELEMENT(type, name)                                                                    \
  static void load_##name(float *tile, long long ld, const void *src, long long stride, int rows,  \
                          int cols, float scale) {                                                 \
    load_tile(type, tile, ld, src, stride, rows, cols, scale);                                     \
  }                                                                                                \
  static void store_##name(void *dst, long long stride, const float *tile, long long ld, int rows, \
                           int cols, float scale) {                                                \
    store_tile(type, dst, stride, tile, ld, rows, cols, scale);                                    \
  }                                                                                                \
  static void dot_rows_##name(float *out, const void *a, long long stride_a, const void *b,        \
                              long long stride_b, int rows, int cols) {                            \
    dot_rows(type, out, a, stride_a, b, stride_b, rows, cols);                                     \
  }
FOR_ELEMENT(F32, f32)
FOR_ELEMENT(F16, f16)
FOR_ELEMENT(BF16, bf16)
#undef FOR_ELEMENT

/* ---- Transposition --------------------------------------------------------------------------- */

/* Transposes a square of registers: each round interleaves its first half with its second, which
   rotates the bits of (row, column) by one; after log2(VEC_LANES) rounds the two have changed
   places. */
INLINE void transpose_square(vec x[VEC_LANES]) {
  for (int n = 1; n < VEC_LANES; n *= 2) {
    vec y[VEC_LANES];
    for (int i = 0; i < VEC_LANES / 2; i++) {
      y[2 * i] = vec_interleave_low(x[i], x[i + VEC_LANES / 2]);
      y[2 * i + 1] = vec_interleave_high(x[i], x[i + VEC_LANES / 2]);
    }
    for (int i = 0; i < VEC_LANES; i++) x[i] = y[i];
  }
}

static void transpose(float *to, long long ld_to, const float *from, long long ld_from, int rows,
                      int cols) {
  for (int c = 0; c < cols; c += VEC_LANES) {
    for (int r = 0; r < padded(rows); r += VEC_LANES) {
      vec x[VEC_LANES];
      for (int i = 0; i < VEC_LANES; i++)
        x[i] = r + i < rows ? vec_load(from + (r + i) * ld_from + c) : (vec){0};
      transpose_square(x);
      for (int i = 0; i < VEC_LANES && c + i < cols; i++) vec_store(to + (c + i) * ld_to + r, x[i]);
    }
  }
}
