-- sm80/tiles.lua: tile sizes of the sm80 target by head dimension and architecture, with the reason
-- by each number. FA2 names the sizes of Dao's FlashAttention-2, the yardstick of this target; TF
-- are TFLOP/s on an H200, bf16, full mask, 8192 keys.

local layout = require "sm80.layout"

local KB = 1024

-- ---- Shapes of the tiles that move --------------------------------------------------------------

-- A tile of `rows` rows of a tensor with `dim` columns, `chunks` chunks a row in shared memory. A
-- pass of `step` rows, a multiple of 8 so that a thread's place in the swizzle stays, takes as many
-- threads as fit; rows of more than threads / 8 chunks are taken in two splits.
local function shape(threads, rows, dim, chunks)
  local columns = dim // 8
  local splits = (8 * columns + threads - 1) // threads
  local across = (columns + splits - 1) // splits
  local step = 8
  while 2 * step * across <= threads and rows % (2 * step) == 0 do step = 2 * step end
  local wider = chunks * 8 > dim and string.format("_of_%d", chunks * 8) or ""
  return { shape = string.format("%dx%d%s", rows, dim, wider), rows = rows, dim = dim,
           chunks = chunks, zero_fill = chunks * 8 > dim, splits = splits, across = across,
           step = step }
end

-- The members of a list whose names differ.
local function distinct(list)
  local seen, kept = {}, {}
  for _, member in ipairs(list) do
    local name = type(member) == "table" and (member.name or member.shape) or member
    if not seen[name] then kept[#kept + 1] = member end
    seen[name] = true
  end
  return kept
end

-- ---- Shared memory ------------------------------------------------------------------------------

-- What one block may have and what a multiprocessor has, by architecture. A resident block takes
-- 1 KB more than it asks for.
local memory = {
  [80] = { block = 163 * KB, processor = 164 * KB },
  [86] = { block = 99 * KB, processor = 100 * KB },
  [89] = { block = 99 * KB, processor = 100 * KB },
  [90] = { block = 227 * KB, processor = 228 * KB },
  [100] = { block = 227 * KB, processor = 228 * KB },
  [120] = { block = 99 * KB, processor = 100 * KB },
}

local here = memory[spec.arch]
local chunks_qk = layout.summed(spec.dim_qk) // 8

local function fits(bytes, blocks)
  return bytes <= here.block and blocks * (bytes + KB) <= here.processor
end

local function fact(name, value, reason)
  return { name = name, value = value, reason = reason }
end

-- The first row of a table that fits the shared memory, with its bytes.
local function choose(rows, bytes_of)
  for _, row in ipairs(rows) do
    row.shared_bytes = bytes_of(row)
    if fits(row.shared_bytes, row.blocks) then return row end
  end
  error(string.format("no tile of this table fits %d bytes of shared memory", here.block), 0)
end

-- ---- Forward ------------------------------------------------------------------------------------

-- A warp owns `rows` queries. 32 rather than 16 halve the traffic from shared memory, the tightest
-- resource: every fragment of K and V then feeds two products (16 rows: 289 TF, 32: 378). Registers
-- set the limit: O takes dim_v of the 255 at 32 rows, S takes `keys`, addresses, maxima and
-- fragments about 60. The KB are those of equal dimensions; unequal ones may pass to a later row.
local forward_rows = {
  { dim_v = 64, -- O and S: 64 + 128 registers; 64 keys: 308 TF, 128: 331
    { queries = 128, keys = 128, rows = 32, stages = 2, blocks = 2 }, -- 80 KB
    { queries = 128, keys = 128, rows = 32, stages = 1, blocks = 2 }, -- 48 KB, two on 100
    { queries = 128, keys = 64, rows = 32, stages = 1, blocks = 2 },  -- dim_qk > 64
    { queries = 128, keys = 32, rows = 32, stages = 1, blocks = 1 } },
  { dim_v = 112, -- 112 + 64
    { queries = 128, keys = 64, rows = 32, stages = 2, blocks = 2 },  -- 84 KB, two on 228
    { queries = 128, keys = 64, rows = 32, stages = 1, blocks = 2 },  -- 56 KB, two on 164
    { queries = 128, keys = 32, rows = 32, stages = 1, blocks = 2 },  -- 42 KB, two on 100
    { queries = 64, keys = 32, rows = 16, stages = 1, blocks = 2 },   -- dim_qk > 128 on 100
    { queries = 64, keys = 32, rows = 16, stages = 1, blocks = 1 } },
  { dim_v = 128, -- 128 + 64, the most that does not spill, and only with two stages
    { queries = 128, keys = 64, rows = 32, stages = 2, blocks = 2 },  -- 96 KB, two on 228
    { queries = 128, keys = 48, rows = 32, stages = 2, blocks = 2 },  -- 80 KB, two on 164
    { queries = 128, keys = 32, rows = 32, stages = 1, blocks = 2 },  -- 48 KB, two on 100; FA2
    { queries = 64, keys = 32, rows = 16, stages = 1, blocks = 2 },   -- dim_qk > 128 on 100
    { queries = 64, keys = 32, rows = 16, stages = 1, blocks = 1 } },
  { dim_v = 160, -- 160 + 32; as FA2
    { queries = 128, keys = 32, rows = 32, stages = 2, blocks = 2 },  -- 80 KB
    { queries = 128, keys = 32, rows = 32, stages = 1, blocks = 2 },
    { queries = 64, keys = 32, rows = 16, stages = 1, blocks = 2 },   -- 40 KB, two on 100
    { queries = 64, keys = 32, rows = 16, stages = 1, blocks = 1 } },
  { dim_v = 256, -- 16 rows: O and S take 128 + 32
    { queries = 64, keys = 64, rows = 16, stages = 1, blocks = 2 },   -- 96 KB, two on 228
    { queries = 128, keys = 64, rows = 16, stages = 2, blocks = 1 },  -- 192 KB
    { queries = 128, keys = 64, rows = 16, stages = 1, blocks = 1 },  -- 128 KB: FA2 on the A100
    { queries = 64, keys = 64, rows = 16, stages = 1, blocks = 1 } }, -- 96 KB: one stage on 99
}

local function forward_facts(tiles)
  local rows = tiles.rows == 32 and "a fragment of K or V feeds two products"
      or "O of 32 rows would not fit the registers"
  local stages = tiles.stages == 2 and "the next K and V arrive while this tile is worked on"
      or "shared memory holds one: K arrives under P V, V under Q K^T"
  local blocks = tiles.blocks == 2
      and "one block's exponentials run beside the other's products"
      or "shared memory or registers hold no second one"
  return {
    fact("query tile", string.format("%d rows", tiles.queries),
      string.format("%d warps of %d rows: %s", tiles.warps, tiles.rows, rows)),
    fact("key tile", string.format("%d keys", tiles.keys),
      "S beside O in 255 registers a thread"),
    fact("stages", string.format("%d", tiles.stages), stages),
    fact("blocks", string.format("%d a multiprocessor", tiles.blocks), blocks),
  }
end

local function forward()
  local chunks_v = layout.stored(spec.dim_v) // 8
  local function bytes(row)
    return 16 * math.max(row.queries * chunks_qk + row.stages * row.keys * (chunks_qk + chunks_v),
      row.queries * chunks_v) -- O leaves through the same memory
  end
  local class
  for _, rows in ipairs(forward_rows) do
    class = class or spec.dim_v <= rows.dim_v and rows
  end
  local tiles = choose(class, bytes)
  tiles.warps = tiles.queries // tiles.rows
  tiles.threads = 32 * tiles.warps
  tiles.row_tiles = tiles.rows // 16
  tiles.part = tiles.keys % 32 == 0 and 32 or 16
  tiles.chunks_qk, tiles.chunks_v = chunks_qk, chunks_v
  tiles.pitches = distinct { chunks_qk, chunks_v }
  tiles.q = shape(tiles.threads, tiles.queries, spec.dim_qk, chunks_qk)
  tiles.k = shape(tiles.threads, tiles.keys, spec.dim_qk, chunks_qk)
  tiles.v = shape(tiles.threads, tiles.keys, spec.dim_v, chunks_v)
  tiles.o = shape(tiles.threads, tiles.queries, spec.dim_v, chunks_v)
  tiles.loads = distinct { tiles.q, tiles.k, tiles.v }
  tiles.stores = { tiles.o }
  tiles.zero_fill = tiles.q.zero_fill
  tiles.products = { {
    name = "multiply_nt", kind = "nt", doc = "a times b transposed: sums over the columns of both.",
    steps = chunks_qk // 2, row_tiles = tiles.row_tiles, cols = 1, chunks_a = chunks_qk,
    chunks_b = chunks_qk, any_columns = true } }
  tiles.facts = forward_facts(tiles)
  return tiles
end

-- ---- Backward -----------------------------------------------------------------------------------

-- dK and dV stay in registers: keys * (dim_qk + dim_v) / threads of them; beside them S and dP take
-- 2 * queries * keys / threads, later dQ queries * dim_qk / threads. Wider key tiles mean fewer
-- loads of Q and dO and fewer additions to dQ: at 128, 64 keys gave 183 TF where 128 gave 266. No
-- row depends on `causal` or `det`: a pre kernel, which knows neither, shares the workspace.
local backward_rows = {
  { dim = 64, -- 64 + 128 registers; as FA2; 64 queries: 276 TF, 128: 307
    { queries = 128, keys = 128, warps = 8, stages = 2, blocks = 1 }, -- 162 KB
    { queries = 64, keys = 128, warps = 8, stages = 2, blocks = 1 } }, -- 97 KB
  { dim = 128, -- 128 + 64
    { queries = 64, keys = 128, warps = 8, stages = 2, blocks = 1 },  -- 161 KB
    { queries = 64, keys = 64, warps = 8, stages = 2, blocks = 1 },   -- 99 hold it up to 96
    { queries = 64, keys = 64, warps = 8, stages = 1, blocks = 1 } }, -- 81 KB
  { dim = 256, -- 128 + 32, then dQ 64
    { queries = 64, keys = 64, warps = 8, stages = 2, blocks = 1 },   -- 209 KB; FA2
    { queries = 64, keys = 64, warps = 8, stages = 1, blocks = 1 },   -- 145 KB; FA2 on the A100
    { queries = 32, keys = 64, warps = 8, stages = 1, blocks = 1 },   -- 80 KB at 192 on 99
    { queries = 32, keys = 32, warps = 4, stages = 1, blocks = 1 } }, -- 68 KB at 256 on 99
}

-- How warps share a product of `extent` rows: 32 rows each where there are as many, so that each
-- fragment feeds two products, and the columns, in pairs of 8, between the rest. Where the pairs do
-- not divide evenly and shorter strips do, strips are shorter.
local function grid(warps, extent, pairs)
  local best
  local rows = math.max(extent // 32, math.min(extent // 16, 2))
  while rows <= warps and rows * 16 <= extent do
    local cols = warps // rows
    local share = (pairs + cols - 1) // cols
    local g = { rows = rows, cols = cols, row_tiles = extent // rows // 16, pairs = share,
                uneven = pairs % cols ~= 0 }
    g.work = g.row_tiles * share
    if not best or g.work < best.work then best = g end
    rows = 2 * rows
  end
  return best
end

local kinds = {
  nt = "a times b transposed: sums over the columns of both.",
  tn = "a transposed times b: sums over the rows of both.",
  nn = "a times b: sums over the columns of a, the rows of b.",
}

local function product(kind, part, columns, steps, chunks_a, chunks_b)
  return { name = string.format("multiply_%s_%d", kind, columns), kind = kind, doc = kinds[kind],
           steps = steps, row_tiles = part.row_tiles, pairs = part.pairs, cols = part.cols,
           uneven = part.uneven, total_pairs = chunks_b // 2, chunks_a = chunks_a,
           chunks_b = chunks_b, any_columns = kind == "nt" }
end

-- S and dP, dV and dK are one product each where the dimensions agree.
local function backward_products(tiles)
  local qk, v, p = tiles.chunks_qk, tiles.chunks_v, tiles.chunks_p
  local queries, keys = tiles.queries // 16, tiles.keys // 16
  tiles.product_s = product("nt", tiles.s, 8 * qk, qk // 2, qk, qk)
  tiles.product_dp = product("nt", tiles.s, 8 * v, v // 2, v, v)
  tiles.product_dv = product("tn", tiles.dv, 8 * v, queries, p, v)
  tiles.product_dk = product("tn", tiles.dk, 8 * qk, queries, p, qk)
  tiles.product_dq = product("nn", tiles.dq, 8 * qk, keys, p, qk)
  tiles.products = distinct { tiles.product_s, tiles.product_dp, tiles.product_dv,
                              tiles.product_dk, tiles.product_dq }
end

local function backward_facts(tiles)
  local stages = tiles.stages == 2 and "the next Q and dO arrive while this tile is worked on"
      or "shared memory holds one: the next Q and dO arrive under dQ"
  return {
    fact("key tile", string.format("%d keys", tiles.keys),
      "dK and dV stay in registers while all queries of the group pass"),
    fact("query tile", string.format("%d rows", tiles.queries),
      "S and dP beside dK and dV in 255 registers"),
    fact("warps", string.format("%d", tiles.warps), string.format(
      "S is cut %d x %d between them, dV %d x %d, dK %d x %d, dQ %d x %d",
      tiles.s.rows, tiles.s.cols, tiles.dv.rows, tiles.dv.cols, tiles.dk.rows, tiles.dk.cols,
      tiles.dq.rows, tiles.dq.cols)),
    fact("stages", string.format("%d", tiles.stages), stages),
  }
end

-- Keys of a warp whose S and dP are made at a time: 16 at 128 are 313 TF, 32 are 361, but under a mask
-- there are no registers for them beside wide rows.
local function set_parts(tiles)
  local most = 16 * tiles.s.pairs
  local widest = math.max(spec.dim_qk, spec.dim_v)
  local wide = widest > 64
  tiles.part_keys = math.min(most, 32)
  tiles.masked_part_keys = math.min(most, wide and 16 or 32)
  -- D is read after dP where registers are short, though 343 TF follow where 356 would at 128.
  tiles.late_d = widest > 128 or wide and (spec.group > 1 or spec.deterministic)
end

local function backward()
  local chunks_v = layout.summed(spec.dim_v) // 8
  local function bytes(row)
    return 16 * (row.keys + row.stages * row.queries) * (chunks_qk + chunks_v) -- K V, Q dO
        + 2 * 2 * row.queries * row.keys                                       -- P dS
        + row.stages * 2 * 4 * row.queries                                     -- LSE D
        + 16                                                                   -- the ticket of `det`
  end
  local class
  for _, rows in ipairs(backward_rows) do
    class = class or math.max(spec.dim_qk, spec.dim_v) <= rows.dim and rows
  end
  local tiles = choose(class, bytes)
  tiles.threads = 32 * tiles.warps
  tiles.chunks_qk, tiles.chunks_v, tiles.chunks_p = chunks_qk, chunks_v, tiles.keys // 8
  tiles.s = grid(tiles.warps, tiles.queries, tiles.keys // 16)
  tiles.dv = grid(tiles.warps, tiles.keys, chunks_v // 2)
  tiles.dk = grid(tiles.warps, tiles.keys, chunks_qk // 2)
  tiles.dq = grid(tiles.warps, tiles.queries, chunks_qk // 2)
  set_parts(tiles)
  tiles.pitches = distinct { chunks_qk, chunks_v, tiles.chunks_p }
  tiles.q = shape(tiles.threads, tiles.queries, spec.dim_qk, chunks_qk)
  tiles.k = shape(tiles.threads, tiles.keys, spec.dim_qk, chunks_qk)
  tiles.v = shape(tiles.threads, tiles.keys, spec.dim_v, chunks_v)
  tiles.dout = shape(tiles.threads, tiles.queries, spec.dim_v, chunks_v)
  tiles.loads = distinct { tiles.q, tiles.k, tiles.v, tiles.dout }
  tiles.stores = distinct { tiles.k, tiles.v, tiles.q }
  tiles.zero_fill = tiles.q.zero_fill or tiles.v.zero_fill
  backward_products(tiles)
  -- Floats of dQ's sum for one query tile, in the order of the fragments.
  tiles.dq_floats = 32 * tiles.warps * tiles.dq.row_tiles * tiles.dq.pairs * 8
  tiles.convert_bytes = 16 * tiles.queries * chunks_qk
  -- Lanes that share a row in the preprocess: 8 read 128 bytes of it at once.
  tiles.preprocess_lanes = 1
  while 2 * tiles.preprocess_lanes <= math.min(8, spec.dim_v // 8) do
    tiles.preprocess_lanes = 2 * tiles.preprocess_lanes
  end
  tiles.facts = backward_facts(tiles)
  return tiles
end

return spec.pass == "fwd" and forward() or backward()
