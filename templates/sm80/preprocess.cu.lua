% -- The preprocess entry: part of a bwd kernel and all of a pre kernel.
% local lanes = tiles.preprocess_lanes
/* ---- Preprocess --------------------------------------------------------------------------------
 * D = rowsum(dO * O) - dLSE, and cleared memory for what backward sums up.
 *
 * Grid: query tiles, at least 1, x heads_q x batch, all in x.
 */

DEVICE float dot_chunk(const uint4 &a, const uint4 &b, float sum) {
  const unsigned from_a[4] = {a.x, a.y, a.z, a.w}, from_b[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = multiply_add(low_half(from_a[i]), low_half(from_b[i]), sum);
    sum = multiply_add(high_half(from_a[i]), high_half(from_b[i]), sum);
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
${spec.name}_preprocess(const __grid_constant__ preprocess_args a) {
  const unsigned head = divide(blockIdx.x, a.query_tiles);
  const int row_first = (blockIdx.x - head * a.query_tiles.number) * QUERIES;
  const int rows = min(QUERIES, a.seqlen_q - row_first);
  const element *o_rows = rows_of(a.o, a.heads_q, head) + row_first * a.o.stride_seq;
  const element *dout_rows = rows_of(a.dout, a.heads_q, head) + row_first * a.dout.stride_seq;
  const long long row_0 = (long long)head * a.seqlen_q + row_first;

% if lanes > 1 then
  /* ${lanes} lanes share a row; in the last round those past the end repeat the last row. */
% end
  for (int first = 0; first < rows; first += THREADS / ${lanes}) {
    const int row = min(first + (int)threadIdx.x / ${lanes}, rows - 1);
    float sum = 0.0f;
    for (int chunk = threadIdx.x % ${lanes}; chunk < DIM_V / 8; chunk += ${lanes})
      sum = dot_chunk(*(const uint4 *)(o_rows + row * a.o.stride_seq + 8 * chunk),
                      *(const uint4 *)(dout_rows + row * a.dout.stride_seq + 8 * chunk), sum);
% local distance = 1
% while distance < lanes do
    sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, ${distance}));
%   distance = 2 * distance
% end
    a.d[row_0 + row] = a.dlse ? subtract(sum, a.dlse[row_0 + row]) : sum;
  }

  if (rows > 0) {
    uint4 *tile = (uint4 *)(a.dq_sum + (long long)blockIdx.x * ${tiles.dq_floats});
    for (int i = threadIdx.x; i < ${tiles.dq_floats // 4}; i += THREADS)
      tile[i] = make_uint4(0, 0, 0, 0);
  }
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < a.counters;
       i += (long long)gridDim.x * THREADS)
    a.turns[i] = 0;
}
