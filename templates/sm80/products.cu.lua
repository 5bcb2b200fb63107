% -- The products of tiles in shared memory, summed in a warp's registers.
/* ---- Products ----------------------------------------------------------------------------------
 * c += a b for a warp's part of c: c[i] is its i-th 16 rows, c[i][j] 8 columns of them. a_tile and
 * b_tile are bytes from the start of shared memory; a_lane and b_lane the places, from that start
 * on, that this lane reads first in such a tile. Lane l gives ldmatrix the address of
 *   as it lies:  row l % 16, chunk l / 16 of a left operand;
 *                row l % 8 + l / 16 * 8, chunk l / 8 % 2 of a right one, its rows the columns of b;
 *   transposed:  these two the other way round. */
% for _, p in ipairs(tiles.products) do
%   local a_transposed = p.kind == "tn" and "_transposed" or ""
%   local b_transposed = p.kind ~= "nt" and "_transposed" or ""
%   local a_move = p.kind == "tn" and "16 * step, 2 * i" or "16 * i, 2 * step"
%   local b_move = p.kind == "nt" and "16 * j, 2 * step"
%       or "16 * step, " .. (p.cols > 1 and string.format("%d * j", 2 * p.cols) or "2 * j")
%   local columns, pairs = "columns", "columns / 2"
%   if not p.any_columns then columns, pairs = 2 * p.pairs, p.pairs end
%   local sums = string.format("float (&c)[%d][%s][4]", p.row_tiles, columns)
%   local pair = p.uneven and ", int pair" or ""

/* ${p.doc} */
% if p.any_columns then
template <int columns>
% end
DEVICE void ${p.name}_step(${sums}, int a_tile, unsigned a_lane,
    int b_tile, unsigned b_lane${pair}, int step) {
  unsigned a[${p.row_tiles}][4];
#pragma unroll
  for (int i = 0; i < ${p.row_tiles}; ++i)
    load_matrices${a_transposed}(a[i], a_tile + moved${p.chunks_a}(a_lane, ${a_move}));
#pragma unroll
  for (int j = 0; j < ${pairs}; ++j) {
%   if p.uneven then
    if (j == ${p.pairs - 1} && pair + ${p.cols * (p.pairs - 1)} >= ${p.total_pairs})
      continue; /* not every warp has a last pair */
%   end
    unsigned b[4];
    load_matrices${b_transposed}(b, b_tile + moved${p.chunks_b}(b_lane, ${b_move}));
#pragma unroll
    for (int i = 0; i < ${p.row_tiles}; ++i) {
      mma(c[i][2 * j], a[i], b[0], b[1]);
      mma(c[i][2 * j + 1], a[i], b[2], b[3]);
    }
  }
}

% if p.any_columns then
template <int columns>
% end
DEVICE void ${p.name}(${sums}, int a_tile, unsigned a_lane,
    int b_tile, unsigned b_lane${pair}) {
  a_lane = anew(a_lane);
  b_lane = anew(b_lane);
#pragma unroll
  for (int step = 0; step < ${p.steps}; ++step)
    ${p.name}_step(c, a_tile, a_lane, b_tile, b_lane${p.uneven and ", pair" or ""}, step);
}
% end
