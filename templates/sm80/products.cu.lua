% -- The products of tiles in shared memory, summed in a warp's registers.
/* ---- Products ---------------------------------------------------------------------------------------
 * c += a b for a warp's part of c: c[i] is its i-th 16 rows, c[i][j] 8 columns of them. a_lane and
 * b_lane are the places that the lane reads first. ldmatrix wants from lane l the address of
 *   as it lies:  row l % 16, chunk l / 16 of a left operand; row l % 8 + l / 16 * 8, chunk l / 8 % 2
 *                of a right one, whose rows are the columns of b;
 *   transposed:  these two the other way round. */
% for _, p in ipairs(tiles.products) do
%   local a_transposed = p.kind == "tn" and "_transposed" or ""
%   local b_transposed = p.kind ~= "nt" and "_transposed" or ""
%   local a_move = p.kind == "tn" and "16 * step, 2 * i" or "16 * i, 2 * step"
%   local b_move = p.kind == "nt" and "16 * j, 2 * step"
%       or "16 * step, " .. (p.cols > 1 and string.format("%d * j", 2 * p.cols) or "2 * j")

/* ${p.doc} */
DEVICE void ${p.name}(float (&c)[${p.row_tiles}][${2 * p.pairs}][4], unsigned a_lane, unsigned b_lane${p.uneven and ", int pair" or ""}) {
#pragma unroll
  for (int step = 0; step < ${p.steps}; ++step) {
    unsigned a[${p.row_tiles}][4];
#pragma unroll
    for (int i = 0; i < ${p.row_tiles}; ++i)
      load_matrices${a_transposed}(a[i], moved${p.chunks_a}(a_lane, ${a_move}));
#pragma unroll
    for (int j = 0; j < ${p.pairs}; ++j) {
%   if p.uneven then
      if (j == ${p.pairs - 1} && pair + ${p.cols * (p.pairs - 1)} >= ${p.total_pairs})
        continue; /* not every warp has a last pair */
%   end
      unsigned b[4];
      load_matrices${b_transposed}(b, moved${p.chunks_b}(b_lane, ${b_move}));
#pragma unroll
      for (int i = 0; i < ${p.row_tiles}; ++i) {
        mma(c[i][2 * j], a[i], b[0], b[1]);
        mma(c[i][2 * j + 1], a[i], b[2], b[3]);
      }
    }
  }
}
% end
