% -- O of forward on its way to memory: divided by the sums of its rows, 16 columns at a time.
/* ---- Output ---------------------------------------------------------------------------------- */

/* Bits are compared, so that no compiler option has a say. */
DEVICE bool is_zero(float x) { return __float_as_uint(x) == 0; }

/* Of a row without keys O may never have been written: 0 by selection. */
DEVICE unsigned normalised(const float *o, float inverse) {
  return is_zero(inverse) ? 0 : pack(multiply(o[0], inverse), multiply(o[1], inverse));
}
% if spec.dim_v >= 16 then

/* 16 columns of the warp's rows into its strip, swizzled as TMA expects it. */
DEVICE void store_columns(unsigned strip, int column, const float *o, const float (&inverse)[2]) {
  const int lane = threadIdx.x % 32, row = lane % 16, unit = column / 8 + lane / 16;
  store_matrices(strip + row * CHUNK_ROW + (unit ^ row % 8) * 16, normalised(o, inverse[0]),
                 normalised(o + 2, inverse[1]), normalised(o + 4, inverse[0]),
                 normalised(o + 6, inverse[1]));
}
% end
% if spec.dim_v % 16 ~= 0 then

/* The last 8 columns. */
DEVICE void store_last_columns(unsigned strip, int column, const float *o,
                               const float (&inverse)[2]) {
  const int row = threadIdx.x % 16, unit = column / 8;
  store_two_matrices(strip + row * CHUNK_ROW + (unit ^ row % 8) * 16, normalised(o, inverse[0]),
                     normalised(o + 2, inverse[1]));
}
% end
