-- sm80/layout.lua: where the chunks of a tile lie in shared memory.
--
-- A tile is rows of 16-byte chunks, 8 columns each, one row after the other with no padding.
-- ldmatrix reads one chunk of 8 rows at a time, and shared memory serves 128 bytes at a time: the 8
-- chunks must differ in place modulo 8. With an odd number of chunks a row they do; else chunk c of
-- row r stands at c ^ (some bits of r), as many bits as the number of chunks has factors of 2, at
-- most 3.

local layout = {}

-- Columns that are stored, or that are the N of a product.
function layout.stored(dim) return (dim + 7) // 8 * 8 end

-- Columns that a product sums over: 16 at a time, the rest filled with zeros.
function layout.summed(dim) return (dim + 15) // 16 * 16 end

-- How many neighbouring chunks change places within a row: 1, 2, 4 or 8.
function layout.swap(chunks)
  local swap = 1
  while swap < 8 and chunks % (2 * swap) == 0 do swap = 2 * swap end
  return swap
end

-- The place of `chunk` in its row, as C text.
function layout.place(chunks)
  local swap = layout.swap(chunks)
  if swap == 1 then return "chunk" end
  if swap == 8 then return "(chunk ^ row % 8)" end
  return string.format("(chunk ^ row / %d %% %d)", 8 // swap, swap)
end

return layout
