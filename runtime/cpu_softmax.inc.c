/* cpu_softmax.inc.c: the exponential, and what attention does to tiles of scores, row by row. */

/* exp(x) within 1 unit in the last place for x in [-87.3, 88.3], infinity above, 0 below: subnormal
   probabilities would add nothing and slow processors down. NaN stays NaN.

   x = n ln(2) + r with |r| <= ln(2) / 2 and exp(x) = 2^n exp(r). The high part of ln(2) has so few
   bits that n times it is exact (Cody and Waite). exp(r) = 1 + r + r^2 q(r), q minimax to 0.03
   units. */
INLINE vec vec_exp(vec x) {
  const float ln2 = 0x1.62e43p-1f, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  const float log2_e = 0x1.715476p+0f;
  const float to_whole = 0x1.8p+23f; /* added, it leaves n in the low bits of the sum */

  /* n is then -127 to 128, of which 2^n below is 0 and infinity. */
  vec bounded = vec_select(x < -127 * ln2, vec_all(-127 * ln2), x);
  bounded = vec_select(bounded > 128 * ln2, vec_all(128 * ln2), bounded);
  vec shifted = vec_fma(bounded, vec_all(log2_e), vec_all(to_whole));
  vec n = shifted - to_whole;
  vec r = vec_fma(n, vec_all(-ln2_high), bounded);
  r = vec_fma(n, vec_all(-ln2_low), r);

  vec q = vec_all(0x1.6a2256p-10f);
  q = vec_fma(q, r, vec_all(0x1.123b02p-7f));
  q = vec_fma(q, r, vec_all(0x1.5558f8p-5f));
  q = vec_fma(q, r, vec_all(0x1.55549p-3f));
  q = vec_fma(q, r, vec_all(0x1.fffffcp-2f));
  vec fraction = vec_fma(q, r * r, r) + 1;
  vec power = (vec)(((vec_bits)shifted + 127) << 23);
  return fraction * power;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Makes the padding of a row of scores invisible, so that whole vectors can be worked on. */
INLINE void hide_padding(float *row, int keys) {
  for (int c = keys; c < padded(keys); c++) row[c] = -INFINITY;
}

/* The largest of `least` and the scores, NaN left aside. */
INLINE float row_maximum(const float *row, int keys, float least) {
  vec largest = vec_all(least);
  for (int c = 0; c < padded(keys); c += VEC_LANES) largest = vec_max(vec_load(row + c), largest);
  return vec_largest(largest);
}

/* row = exp(row - shift); the sum of that. */
INLINE float row_exponentials(float *row, int keys, float shift) {
  vec sum = {0};
  for (int c = 0; c < padded(keys); c += VEC_LANES) {
    vec e = vec_exp(vec_load(row + c) - shift);
    vec_store(row + c, e);
    sum += e;
  }
  return vec_sum(sum);
}

static void online_softmax(float *s, long long lds, int rows, int keys, float *row_max,
                           float *row_sum, float *o, long long ldo, int dim_v) {
  for (int r = 0; r < rows; r++) {
    float *scores = s + r * lds, *o_row = o + r * ldo;
    hide_padding(scores, keys);
    float old_max = row_max[r], new_max = row_maximum(scores, keys, old_max);
    /* While nothing is visible any finite shift will do: exp(-inf) = 0, and a NaN shows. It must
       not become the maximum, where it would drown later scores that are far below it. */
    float shift = new_max == -INFINITY ? 0 : new_max;
    float sum = row_exponentials(scores, keys, shift);
    row_max[r] = new_max;
    if (old_max == shift) { /* the usual case, and the factor is 1 */
      row_sum[r] += sum;
      continue;
    }
    float factor = vec_exp((vec){old_max - shift})[0];
    row_sum[r] = row_sum[r] * factor + sum;
    for (int c = 0; c < dim_v; c += VEC_LANES) vec_store(o_row + c, vec_load(o_row + c) * factor);
  }
}

static void softmax_end(float *o, long long ldo, int rows, int dim_v, const float *row_max,
                        const float *row_sum, float *lse) {
  for (int r = 0; r < rows; r++) {
    float *o_row = o + r * ldo, sum = row_sum[r];
    lse[r] = row_max[r] + logf(sum); /* no key: -inf + -inf */
    vec nothing = {0};
    for (int c = 0; c < dim_v; c += VEC_LANES)
      vec_store(o_row + c, sum == 0 ? nothing : vec_load(o_row + c) / sum);
  }
}

/* ---- Backward -------------------------------------------------------------------------------- */

static void probabilities(float *s, long long lds, int rows, int keys, const float *lse) {
  for (int r = 0; r < rows; r++) {
    float *row = s + r * lds;
    float shift = lse[r] == -INFINITY ? INFINITY : lse[r]; /* a row without keys: exp(-inf) */
    for (int c = 0; c < keys; c += VEC_LANES) {
      vec x = vec_load(row + c);
      vec_store(row + c, vec_select(x == -INFINITY, (vec){0}, vec_exp(x - shift)));
    }
  }
}

static void score_gradient(float *dp, const float *p, long long ld, int rows, int keys,
                           const float *d) {
  for (int r = 0; r < rows; r++) {
    float *dp_row = dp + r * ld;
    for (int c = 0; c < keys; c += VEC_LANES) {
      vec weight = vec_load(p + r * ld + c);
      vec gradient = weight * (vec_load(dp_row + c) - d[r]);
      vec_store(dp_row + c, vec_select(weight == 0, (vec){0}, gradient));
    }
  }
}
