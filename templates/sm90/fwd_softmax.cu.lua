% -- The online softmax of forward: what a consumer keeps of its rows from tile to tile.
/* ---- The online softmax ---------------------------------------------------------------------- */

#define LOG2_E 1.44269504f
#define LN_2 0.693147181f
#define LARGEST 3.40282347e38f /* finite number */
#define GROWTH ${tiles.growth} /* of a row's maximum, in powers of 2, that does not move its peak */
% if tiles.sums then
#define LARGE 4096.0f /* a lane's sum of P over a tile that calls for a look at the maxima */
% end

/* Over the four lanes that share a row. */
DEVICE float quad_maximum(float x) {
  x = maximum(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return maximum(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
DEVICE float quad_sum(float x) {
  x = add(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return add(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* What P of the lane's two rows refers to: P = exp2(slope * s + offset), offset = -slope * peak. */
struct row_state {
  float peak[2]; /* the row's maximum when it was last raised; -inf: no key is visible yet */
  float slope[2], offset[2];
  float sum[2];        /* of P, over this lane's columns */
  float correction[2]; /* for what was summed before the last raise */
};

/* Raises the peaks, of the rows asked for, that the scores outgrow by more than 2^GROWTH. Each row
 * decides by itself: its result depends on no other. True if O needs correction.
 *
 * Rounding makes slope * peak + offset as large as 2^-24 |offset|: the same for all keys of a row,
 * so it cancels, but beyond 2^27 it would overflow. There a slope that is a power of two makes it
 * 0, and cannot be told from the right one: scores that differ at all differ by 16 or more. */
template <int count>
DEVICE bool raise_peaks(row_state &state, const float (&s)[count], float slope,
                        const bool (&asked)[2]) {
  const float next_power = __uint_as_float((__float_as_uint(slope) & 0x7f800000u) + 0x00800000u);
  float peak[2];
  bool raise[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float even = s[2 * row], odd = s[2 * row + 1];
#pragma unroll
    for (int i = 4 + 2 * row; i < count; i += 4) {
      even = maximum(even, s[i]);
      odd = maximum(odd, s[i + 1]);
    }
    peak[row] = maximum(state.peak[row], quad_maximum(maximum(even, odd)));
    const float growth = multiply(subtract(peak[row], state.peak[row]), slope);
    raise[row] = asked[row] && exceeds(growth, GROWTH);
  }
  if (!__any_sync(0xffffffffu, raise[0] || raise[1]))
    return false;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float before = state.offset[row];
    state.peak[row] = raise[row] ? peak[row] : state.peak[row];
    const float level = multiply(state.peak[row], slope);
    const bool huge = exceeds(maximum(level, multiply(level, -1.0f)), 134217728.0f);
    state.slope[row] = huge ? next_power : slope;
    /* Finite while the peak is -inf: exp2(-inf + offset) is then 0, not NaN. */
    const float down = multiply(state.slope[row], -1.0f);
    state.offset[row] = minimum(multiply(state.peak[row], down), LARGEST);
    state.correction[row] = exp2_approx(subtract(state.offset[row], before));
    state.sum[row] = multiply(state.sum[row], state.correction[row]);
  }
  return true;
}

/* P of a tile as the left operand of O += P V, and its row sums over this lane's columns. */
template <int count>
DEVICE void probabilities(unsigned (&p)[count / 2], float (&sum)[2], const float (&s)[count],
                          const row_state &state) {
  sum[0] = sum[1] = 0.0f;
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    const int row = i / 2 % 2;
    const float left = exp2_approx(multiply_add(s[i], state.slope[row], state.offset[row]));
    const float right = exp2_approx(multiply_add(s[i + 1], state.slope[row], state.offset[row]));
    sum[row] = add(add(sum[row], left), right);
    p[i / 2] = pack(left, right);
  }
}

DEVICE void add_sums(row_state &state, const float (&sum)[2]) {
  state.sum[0] = add(state.sum[0], sum[0]);
  state.sum[1] = add(state.sum[1], sum[1]);
}

DEVICE void correct_output(float (&o)[DIM_V / 2], const row_state &state) {
#pragma unroll
  for (int i = 0; i < DIM_V / 2; ++i)
    o[i] = multiply(o[i], state.correction[i / 2 % 2]);
}
