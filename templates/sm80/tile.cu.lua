% -- Tiles in shared memory: where a chunk stands, and how rows come from and go to memory.
% local layout = require "sm80.layout"
/* ---- Tiles in shared memory --------------------------------------------------------------------
 * A tile is rows of 16-byte chunks, 8 columns each. placeN gives the byte of a chunk in a tile of N
 * chunks a row; movedN goes from the place of (row, chunk) to that of (row + rows, chunk + chunks),
 * rows a multiple of 8 and chunks without a bit in common with chunk.
 *
 * ldmatrix reads one chunk of 8 rows at once, and these must lie in different banks.
% for _, chunks in ipairs(tiles.pitches) do
%   local swap = layout.swap(chunks)
%   if swap > 1 then
 * With ${chunks} chunks a row, chunks change places within ${swap}, by bits of the row.
%   else
 * With ${chunks} chunks a row they do: the number is odd.
%   end
% end
 */
% for _, chunks in ipairs(tiles.pitches) do
%   local swap = layout.swap(chunks)

DEVICE unsigned place${chunks}(int row, int chunk) {
  return (row * ${chunks} + ${layout.place(chunks)}) * 16;
}

DEVICE unsigned moved${chunks}(unsigned place, int rows, int chunks) {
%   if swap > 1 then
  return (place ^ chunks % ${swap} * 16) + (rows * ${chunks} + chunks / ${swap} * ${swap}) * 16;
%   else
  return place + (rows * ${chunks} + chunks) * 16;
%   end
}
% end
% for _, t in ipairs(tiles.loads) do

/* Starts copying ${t.rows} rows of ${t.dim} columns from row `first` on; past seqlen come zeros.
%   if t.splits > 1 then
 * A thread copies chunks t % ${t.across} and ${t.across} further of every ${t.step}th row from t / ${t.across} on. */
%   else
 * A thread copies chunk t % ${t.across} of every ${t.step}th row from row t / ${t.across} on. */
%   end
DEVICE void load_${t.shape}(unsigned to, const element *rows, long long stride, int first,
    int seqlen) {
  const unsigned thread = thread_index();
  const int row = thread / ${t.across}, chunk = thread % ${t.across};
%   if t.step * t.across < tiles.threads then
  if (row >= ${t.step})
    return;
%   end
  const element *from = rows + (first + row) * stride + chunk * 8;
  const int left = seqlen - first - row; /* rows, from the first of this thread on */
%   if t.splits > 1 then
  const unsigned second = to + place${t.chunks}(row, chunk + ${t.across});
%   end
  to += place${t.chunks}(row, chunk);
#pragma unroll
  for (int n = 0; n < ${t.rows // t.step}; ++n) {
    const int bytes = left > ${t.step} * n ? 16 : 0;
    copy_async(moved${t.chunks}(to, ${t.step} * n, 0), from, bytes);
%   if t.splits * t.across > t.dim // 8 then
    if (chunk + ${t.across} < ${t.dim // 8})
      copy_async(moved${t.chunks}(second, ${t.step} * n, 0), from + ${8 * t.across}, bytes);
%   elseif t.splits > 1 then
    copy_async(moved${t.chunks}(second, ${t.step} * n, 0), from + ${8 * t.across}, bytes);
%   end
    from = advance(from, ${t.step} * stride);
  }
}
%   if t.zero_fill then

/* Clears the columns of ${t.rows} rows that products sum over and that are none of the tensor's. */
DEVICE void clear_${t.shape}(unsigned tile) {
  for (int row = threadIdx.x; row < ${t.rows}; row += THREADS)
    clear_shared(tile + place${t.chunks}(row, ${t.dim // 8}));
}
%   end
% end
% for _, t in ipairs(tiles.stores) do
%   local total = t.rows * t.dim // 8

/* Copies ${t.rows} rows of ${t.dim} columns to row `first` on, none past seqlen. */
DEVICE void store_${t.shape}(element *rows, long long stride, int first, int seqlen,
    unsigned tile) {
#pragma unroll
  for (int n = 0; n < ${(total + tiles.threads - 1) // tiles.threads}; ++n) {
    const int i = n * THREADS + threadIdx.x, row = i / ${t.dim // 8}, chunk = i % ${t.dim // 8};
%   if total % tiles.threads ~= 0 then
    if (i >= ${total})
      break;
%   end
    if (row < seqlen - first)
      *(uint4 *)(rows + (first + row) * stride + chunk * 8) =
          load_shared(tile + place${t.chunks}(row, chunk));
  }
}
% end
