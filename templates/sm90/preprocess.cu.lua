% -- The preprocess entry: part of a bwd kernel and all of a pre kernel.
% local units = spec.dim_v // 8
% local lanes = tiles.sum_lanes
/* ---- Preprocess --------------------------------------------------------------------------------
% local share = lanes > 1 and string.format("%d lanes share a row.", lanes) or "A lane takes a row."
 * D = rowsum(dO * O) - dLSE, and cleared memory for what backward sums up. ${share}
 *
 * Grid: query tiles, at least 1, x heads_q x batch, all in x.
 */

% if spec.dtype == "bf16" then
DEVICE float low_half(unsigned pair) { return __uint_as_float(pair << 16); }
DEVICE float high_half(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
% else
DEVICE float low_half(unsigned pair) {
  float x;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;\n}\n"
      : "=f"(x)
      : "r"(pair));
  return x;
}
DEVICE float high_half(unsigned pair) { return low_half(pair >> 16); }
% end

/* sum + the products of 8 pairs of values. */
DEVICE float dot_unit(const uint4 &a, const uint4 &b, float sum) {
  const unsigned from_a[4] = {a.x, a.y, a.z, a.w}, from_b[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = multiply_add(low_half(from_a[i]), low_half(from_b[i]), sum);
    sum = multiply_add(high_half(from_a[i]), high_half(from_b[i]), sum);
  }
  return sum;
}

enum { LANES = ${lanes} /* of a row, side by side */ };
% if lanes > 1 then

/* The sum over the lanes of a row. */
DEVICE float sum_over_lanes(float sum) {
% local distance = 1
% while distance < lanes do
  sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, ${distance}));
%   distance = 2 * distance
% end
  return sum;
}
% end

extern "C" __global__ void __launch_bounds__(256)
${spec.name}_preprocess(
    const __grid_constant__ preprocess_args args) {
  enum { ROWS = 256 / LANES /* at once */ };
  launch_next();
  /* Last tiles first: of what main then takes first, most is still in L2. */
  const unsigned block = gridDim.x - 1 - blockIdx.x;
  const int query_tiles = max((args.seqlen_q + QUERIES - 1) / QUERIES, 1);
  const int row_first = block % query_tiles * QUERIES;
  const int any_head = block / query_tiles;
  const int head = any_head % args.heads_q, batch = any_head / args.heads_q;
  const int rows = min(QUERIES, args.seqlen_q - row_first);
  const element *o = rows_of(args.o, batch, head) + row_first * args.o.stride_seq;
  const element *dout = rows_of(args.dout, batch, head) + row_first * args.dout.stride_seq;
  const long long row_0 = (long long)any_head * args.seqlen_q + row_first;

  if (rows > 0) {
% if lanes > 1 then
    const int lane = threadIdx.x % LANES;
% end
#pragma unroll
    for (int first = 0; first < QUERIES; first += ROWS) {
      const int row = first + threadIdx.x / LANES;
      const int within = min(row, rows - 1); /* lanes of a row stay together */
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < DIM_V / 8; i += LANES) {
        const int unit = ${lanes > 1 and "i + lane" or "i"};
% if units % lanes ~= 0 then
        if (unit < DIM_V / 8)
% end
        sum = dot_unit(*(const uint4 *)(o + within * args.o.stride_seq + 8 * unit),
                       *(const uint4 *)(dout + within * args.dout.stride_seq + 8 * unit), sum);
      }
% if lanes > 1 then
      sum = sum_over_lanes(sum);
% end
      if (row < rows${lanes > 1 and " && lane == 0" or ""})
        args.d[row_0 + row] = args.dlse ? subtract(sum, args.dlse[row_0 + row]) : sum;
    }

    uint4 *tile = (uint4 *)(args.dq_sum + (long long)block * DQ_FLOATS);
    if (block < args.sums)
#pragma unroll
      for (int i = threadIdx.x; i < DQ_FLOATS / 4; i += 256)
        tile[i] = make_uint4(0, 0, 0, 0);
  }
  for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < args.count;
       i += (long long)gridDim.x * 256)
    args.counters[i] = 0;
}
