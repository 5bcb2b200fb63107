-- sm90/tiles_bwd.lua: tiles of backward on Hopper, with the reason by each number. They depend on
-- neither mask nor `det`: a pre kernel, which knows neither, shares the workspace.
--
--   queries, keys  rows of a tile on either axis: S and dP are queries x keys
--   v_steps        of the first 64 columns of V, in 16s, that stay in registers as operands of dP
--   parts          into how many a group is divided, a block each; nil: the plan decides

local mask, score = require "mask", require "score"

local function chunks(columns) return (columns + 63) // 64 end -- of 128 bytes, the swizzle's span

local widest = math.max(spec.dim_qk, spec.dim_v)

-- ---- The table ---------------------------------------------------------------------------------
-- Measured on an H200: shared memory feeds the products and is as busy as they are, so the widest
-- tiles win that dK, dV, S and dP leave registers for: 240 a thread of two consumer warpgroups.

local tiles = require("sm90.candidate").backward
if tiles then -- to be tried
elseif widest <= 64 then -- S and dP take 64 registers each, dK and dV 32
  tiles = { queries = 128, keys = 128, warpgroups = 2, v_steps = 4,
    reason = "S, dP, dK, dV and V take 208 of 240 registers" }
elseif widest <= 112 then -- S and dP 32 each, dK and dV 56 at most
  tiles = { queries = 64, keys = 128, warpgroups = 2, v_steps = 4,
    reason = "192 of 240 registers; 80 queries would leave none for V" }
elseif widest <= 128 then -- dK and dV 64
  tiles = { queries = 64, keys = 128, warpgroups = 2, v_steps = 3,
    reason = "204 of 240 registers; 80 queries would leave none for V" }
elseif widest <= 192 then -- dK and dV 48 each, dQ 32
  tiles = { queries = 64, keys = 96, warpgroups = 3, wide = true,
    reason = "dK, dV and dQ take 128 of 160 registers" }
else -- dK and dV 80 each, dQ 32
  tiles = { queries = 64, keys = 80, warpgroups = 2, wide = true,
    reason = "dK, dV and dQ take 192 of 240 registers" }
end

local row_bytes = 128
tiles.qk_chunks, tiles.v_chunks = chunks(spec.dim_qk), chunks(spec.dim_v)
tiles.threads = 128 * (tiles.warpgroups + 1)
tiles.producer_registers = tiles.warpgroups == 2 and 24 or 32
tiles.consumer_registers = tiles.warpgroups == 2 and 240 or 160
-- What a mask that is looked for says of each query is formed by the warp that brings LSE and D.
tiles.query_terms = spec.pass == "bwd" and not tiles.wide and mask.searched "q"
    and mask.by_axis(require "sm90.names_bwd", "k").of_column or {}
tiles.query_bytes = 8 + 4 * #tiles.query_terms -- LSE, D and those terms
-- Barriers, and these numbers of two query tiles.
tiles.header_bytes = (1024 + 2 * tiles.query_bytes * tiles.queries + 1023) // 1024 * 1024
tiles.v_bytes = tiles.v_chunks * tiles.keys * row_bytes
tiles.q_bytes = tiles.qk_chunks * tiles.queries * row_bytes
tiles.dout_bytes = tiles.v_chunks * tiles.queries * row_bytes
tiles.ds_bytes = 2 * tiles.queries * row_bytes
tiles.dout_stages = 2
tiles.sum_lanes = 1 -- that share a row of D, which is summed in the same order by two entries
while 16 * tiles.sum_lanes <= spec.dim_v and tiles.sum_lanes < 8 do
  tiles.sum_lanes = 2 * tiles.sum_lanes
end
tiles.l2_promotion = 256

local block_bytes = 227 * 1024 -- of shared memory, the most that one may have

if tiles.wide then
  -- A consumer owns every `warpgroups`-th run of 64 columns of dQ, dK and dV.
  tiles.qk_slices = (tiles.qk_chunks + tiles.warpgroups - 1) // tiles.warpgroups
  tiles.v_slices = (tiles.v_chunks + tiles.warpgroups - 1) // tiles.warpgroups
  tiles.k_split, tiles.k_chunks = 64, tiles.qk_chunks
  tiles.k_bytes = tiles.qk_chunks * tiles.keys * row_bytes
  tiles.dq_floats = 64 * 64 * tiles.qk_chunks
  tiles.turns = 1 -- counters a block
  local function bytes()
    return tiles.header_bytes + tiles.k_bytes + tiles.v_bytes + 2 * tiles.q_bytes
        + tiles.dout_stages * tiles.dout_bytes + 2 * tiles.ds_bytes
  end
  if bytes() > block_bytes then tiles.dout_stages = 1 end
  tiles.shared_bytes = bytes()
else
  -- Changed scores need some registers of their own: two steps of V are left. At 64 columns, where S and
  -- dP are twice as large, every variant has one at most, and none where a derivative is a factor or
  -- pairs look in a table: with more, loops spill.
  local most = score.identity and tiles.v_steps or 2
  if score.varied and widest <= 64 then
    most = score.unit_derivative and not score.tables and 1 or 0
  end
  tiles.v_steps = math.min(most, (spec.dim_v + 15) // 16)
  -- dQ of 128 queries is cut by rows between the two warpgroups, that of 64 by columns: K then
  -- stands in two chunks of `k_split` columns each, and a warpgroup's are one chunk.
  local by_rows = tiles.queries == 128
  tiles.by_rows = by_rows
  tiles.k_split = by_rows and 64 or (spec.dim_qk + 31) // 32 * 16
  tiles.k_chunks = by_rows and 1 or 2
  tiles.dq_columns = by_rows and spec.dim_qk or tiles.k_split
  tiles.dq_part = 64 * tiles.dq_columns -- floats of dQ a warpgroup
  tiles.dq_floats = 2 * tiles.dq_part
  tiles.turns = 2 -- counters a block: of odd turns and of even ones
  -- dK leaves through K, dV through V.
  tiles.k_bytes = math.max(tiles.k_chunks, tiles.qk_chunks) * tiles.keys * row_bytes
  tiles.shared_bytes = tiles.header_bytes + tiles.k_bytes + tiles.v_bytes
      + 2 * (tiles.q_bytes + tiles.dout_bytes + tiles.ds_bytes) + 2 * 4 * tiles.dq_part
end
assert(tiles.shared_bytes <= block_bytes)

-- Short sequences go through one launch: a block takes whole heads, and computes D itself. Sums of
-- dQ are its own, so that they have one order. Its blocks name no head, and D is for them alone.
if not tiles.wide and spec.group == 1 and not score.varied then
  local short = {} -- queries and keys, at most
  -- Won at 512 by 1.2 and more: but lost by 4 % with 128 columns, full. 768 is won by 6 % with 64
  -- columns, causal, and lost by 4 to 13 % else; turns, which `det` needs otherwise, cost more.
  if mask.trivial then
    short.length = (tiles.by_rows or spec.deterministic) and 512 or 384
  else
    short.length = (tiles.by_rows or spec.deterministic) and 1024 or 512
  end
  -- Where all of V is in registers, its place is free for the next V, and a second K just fits in.
  short.ahead = tiles.by_rows and 16 * tiles.v_steps >= spec.dim_v
  short.shared_bytes = tiles.shared_bytes + tiles.dout_bytes -- O
      + (short.ahead and tiles.k_bytes or 0)
  assert(short.shared_bytes <= block_bytes)
  tiles.short = short
  tiles.dq_swizzled = tiles.dq_columns == 64 -- else 16 rows of dQ are packed
end

-- A block takes all heads of a group, or a part of them where whole groups are too few or too long;
-- then the parts of dK and dV are summed in memory. Turns of `det` are those of whole groups.
tiles.divided = spec.group > 1 and not spec.deterministic and not mask.searched "q"
-- Under a mask, blocks of a pair drift apart with each head, and share less and less of what is in L2:
-- of 8 heads, 2 parts won by 2 to 9 %, from 1k to 16k; of 4, they lost.
tiles.most_members = spec.group
if not mask.trivial then
  for members = 2, 4 do
    if spec.group > 4 and spec.group % members == 0 then tiles.most_members = members end
  end
end
tiles.each_head = tiles.divided
  and "for (int head = at_keys.head; head < at_keys.head + args.members; ++head)"
  or "for (int head = at_keys.head_kv * GROUP; head < (at_keys.head_kv + 1) * GROUP; ++head)"

-- ---- Products ----------------------------------------------------------------------------------
-- Operands: n as the product is written, t transposed, both in shared memory; r in registers.

tiles.products = {}
local function product(left, right, columns)
  for _, other in ipairs(tiles.products) do
    if other.left == left and other.right == right and other.columns == columns then return end
  end
  tiles.products[#tiles.products + 1] = { left = left, right = right, columns = columns }
end

if tiles.wide then
  product("n", "t", tiles.keys // tiles.warpgroups) -- S = Q K^T and dP = dO V^T
  product("t", "n", tiles.keys)                     -- dV^T += dO^T P, dK^T += Q^T dS
  product("t", "t", tiles.queries)                  -- dQ^T = K^T dS^T
else
  product("n", "t", tiles.queries)    -- S^T = K Q^T, dP^T = V dO^T where V is not in registers
  product("r", "t", tiles.queries)    -- where it is
  product("r", "n", spec.dim_v)       -- dV += P^T dO
  product("r", "n", spec.dim_qk)      -- dK += dS^T Q
  product("n", "n", tiles.dq_columns) -- dQ = dS K
end

-- Whether 8 columns or keys are left over where 16 are stored at a time.
tiles.odd_columns = tiles.wide and tiles.keys // tiles.warpgroups % 16 ~= 0
    or not tiles.wide and (spec.dim_qk % 16 ~= 0 or spec.dim_v % 16 ~= 0)

local function fact(name, value, reason)
  return { name = name, value = value, reason = reason }
end

tiles.facts = {
  fact("query tile", string.format("%d rows", tiles.queries), tiles.reason),
  fact("key tile", string.format("%d keys", tiles.keys),
    "dK and dV stay in registers while all queries of the group pass"),
  tiles.wide and fact("consumers", string.format("%d warpgroups", tiles.warpgroups),
    "each owns columns of dQ, dK and dV in runs of 64; S and dP are cut by keys")
    or fact("V in registers", string.format("%d columns", 16 * tiles.v_steps),
      "products of 64 columns need all of shared memory's bandwidth; this takes some off it"),
}
if tiles.short then
  tiles.facts[#tiles.facts + 1] = fact("one launch", string.format("to %d keys", tiles.short.length),
    "a block takes whole heads; three launches cost a third of the time of 512 keys")
end

-- Key tiles whose walks are looked for are taken longest first; `det` has an order of its own.
tiles.longest_first = spec.pass == "bwd" and mask.searched "q" and not spec.deterministic

return tiles
