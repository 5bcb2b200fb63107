% -- Tiles in shared memory: where a chunk stands, and how rows come from and go to memory.
% local layout = require "sm80.layout"
/* ---- Tiles in shared memory ------------------------------------------------------------------------
 * A tile is rows of 16-byte chunks, 8 columns each. placeN gives the byte of a chunk in a tile of N
 * chunks a row; movedN goes from the place of (row, chunk) to that of (row + rows, chunk + chunks),
 * rows a multiple of 8 and chunks without a bit in common with chunk.
% for _, chunks in ipairs(tiles.pitches) do
%   local swap = layout.swap(chunks)
%   if swap > 1 then
 * With ${chunks} chunks a row, chunks change places within ${swap}, so that the 8 rows which ldmatrix reads at
 * once lie in different banks.
%   else
 * With ${chunks} chunks a row, an odd number, the 8 rows which ldmatrix reads at once lie in different banks.
%   end
% end
 */
% for _, chunks in ipairs(tiles.pitches) do
%   local swap = layout.swap(chunks)

DEVICE unsigned place${chunks}(int row, int chunk) {
  return (row * ${chunks} + ${layout.place(chunks)}) * 16;
}

DEVICE unsigned moved${chunks}(unsigned address, int rows, int chunks) {
%   if swap > 1 then
  return (address ^ chunks % ${swap} * 16) + (rows * ${chunks} + chunks / ${swap} * ${swap}) * 16;
%   else
  return address + (rows * ${chunks} + chunks) * 16;
%   end
}
% end
% for _, t in ipairs(tiles.loads) do

/* Starts copying ${t.rows} rows of ${t.dim} columns; rows from `count` on become zeros. A thread copies
 * chunk t % ${t.across}${t.splits > 1 and string.format(" and the one %d further", t.across) or ""} of every ${t.step}th row from row t / ${t.across} on. */
DEVICE void load_${t.shape}(unsigned tile, const element *rows, long long stride, int count) {
  const unsigned thread = thread_index();
  const int row = thread / ${t.across}, chunk = thread % ${t.across};
%   if t.step * t.across < tiles.threads then
  if (row >= ${t.step})
    return;
%   end
  const element *from = rows + row * stride + chunk * 8;
  const unsigned to = tile + place${t.chunks}(row, chunk);
%   if t.splits > 1 then
  const unsigned to_second = tile + place${t.chunks}(row, chunk + ${t.across});
%   end
#pragma unroll
  for (int n = 0; n < ${t.rows // t.step}; ++n) {
    const int bytes = row + ${t.step} * n < count ? 16 : 0;
    copy_async(moved${t.chunks}(to, ${t.step} * n, 0), from, bytes);
%   if t.splits * t.across > t.dim // 8 then
    if (chunk + ${t.across} < ${t.dim // 8})
%   end
%   if t.splits > 1 then
      copy_async(moved${t.chunks}(to_second, ${t.step} * n, 0), from + ${8 * t.across}, bytes);
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

/* Copies ${t.rows} rows of ${t.dim} columns from shared memory, `count` of them at most. */
DEVICE void store_${t.shape}(element *rows, long long stride, unsigned tile, int count) {
#pragma unroll
  for (int n = 0; n < ${(total + tiles.threads - 1) // tiles.threads}; ++n) {
    const unsigned i = n * THREADS + threadIdx.x;
    const int row = i / ${t.dim // 8}, chunk = i % ${t.dim // 8};
%   if total % tiles.threads ~= 0 then
    if (i >= ${total})
      break;
%   end
    if (row < count)
      *(uint4 *)(rows + row * stride + chunk * 8) = load_shared(tile + place${t.chunks}(row, chunk));
  }
}
% end
