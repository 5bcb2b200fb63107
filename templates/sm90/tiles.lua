-- sm90/tiles.lua: tile and schedule of each forward entry, with the reason by each number.
--
-- A consumer warpgroup owns 64 query rows; an entry is compiled for at most `warpgroups` of them and
-- the plan may launch it with fewer. The key tile fixes the order of a row's sums, so the plan
-- picks the entry by the length alone; how many warpgroups, how many blocks and in which order
-- they take the tiles is free.
--   keys         rows of a key tile: the N of S = Q K^T and the depth of O += P V
--   stages       buffers in each of the rings of K and of V
--   q_buffers    2: the next tile's Q arrives while this one is worked on
--   q_registers  Q is taken into registers when a tile begins, so that one buffer does as much
--   strips       64-column strips of O that a warp may have on their way to memory
--   turns        consumers issue their products in turns, so that one's exponentials run under
--                another's products
--   every_peak   the row maxima of every tile are looked at, else only where its sums are large
--   longest_keys the entry serves sequences of at most this many keys; nil: all others

if spec.pass ~= "fwd" then return require "sm90.tiles_bwd" end

local expr, mask, score = require "expr", require "mask", require "score"

local function chunks(columns) return (columns + 63) // 64 end -- of 128 bytes, the swizzle's span

local qk_chunks, v_chunks = chunks(spec.dim_qk), chunks(spec.dim_v)
local widest = math.max(spec.dim_qk, spec.dim_v)

-- The growth of a row's maximum, in powers of 2, beyond which P refers to a new one: P of the largest
-- scores is then exactly 1 more often, which costs a correction of O. Scores of few columns have long
-- tails, so that single keys decide the error. At 129 to 192 columns FlashAttention-2 splits few keys
-- among blocks, each with a 1 of its own: against it 1.06 instead of 1.08 at 768 keys, 1 to 2 % slower.
local growth = (widest <= 32 or widest > 128 and widest <= 192) and 0.0 or 1.0

-- What a mask that is looked for says of each row: document one term, block_draft four.
local row_terms = mask.searched "k" and #mask.by_axis(require("sm90.scores_fwd").names, "q").of_row or 0

-- Registers a thread of the producer and of a consumer: together they must fit what the launch gave,
-- which is 65536 over all threads, rounded down to 8 a thread.
local registers = { [2] = { 40, 232 }, [3] = { 32, 160 }, [4] = { 32, 112 } }

-- ---- The table ---------------------------------------------------------------------------------
-- Measured on an H200 at 700 W, where TFLOP/s = clock x utilisation and saved energy is speed. Rows to
-- try: tests/bench/tune.py; tried: tests/bench/NOTES.md.

local function narrow() -- to 64 columns: products and exponentials take equally long
  if mask.searched "k" or score.tables then
    return { { warpgroups = 3, keys = 96, stages = 2, q_buffers = 2, strips = v_chunks, turns = true,
      every_peak = widest <= 32 or nil,
      reason = "terms of the mask, or places in a table, need registers: 256 rows and 128 keys spill" } }
  end
  local short = { warpgroups = 4, keys = 64, stages = 4, q_buffers = 2, strips = v_chunks,
    turns = true,
    reason = "256 rows, four warpgroups: most exponentials hidden; 0.92 of the other at 16384 keys" }
  local main = { warpgroups = 3, keys = 128, stages = 2, q_buffers = 2, strips = v_chunks,
    turns = true,
    reason = "half the barriers a key; as much as 160 registers hold; level with the other at 2048" }
  if widest <= 32 then short.every_peak, main.every_peak = true, true end
  -- 1.02 to 1.03 of two buffers; at 48 columns 1.00, causal 0.99, and so at 40 in long sequences.
  if widest > 32 and widest <= 40 and score.identity then
    short.q_registers, short.q_buffers = true, 1
    if mask.trivial then main.q_registers, main.q_buffers = true, 1 end
  end
  if not mask.trivial and score.varied then return { short } end
  -- Causal the other is 0.95 and 0.98 at 2048 and 4096, 1.04 and 1.03 at 8192 and 16384.
  short.longest_keys = mask.trivial and 2048 or 4096
  return { short, main }
end

-- Whether a row sees keys between two limits, so that its first and its last tile are masked.
local function banded()
  return mask.keep and expr.any(mask.pairwise, function(n) return n.op == "below" end)
end

-- S, P and O take keys/2 + keys/4 + dim_v/2 of a consumer's registers.
local function fill_registers()
  local function three(keys, q_buffers, strips)
    return { warpgroups = 3, keys = keys, stages = 2, q_buffers = q_buffers, strips = strips,
      turns = true,
      reason = "192 rows a tile save loads from L2, thus power; S, P and O fill 160 registers" }
  end
  if mask.searched "k" then -- terms of the mask need registers; 1.06 of 192x80 on short documents
    return three(64, 2, v_chunks)
  elseif spec.dim_v <= 72 then
    return { warpgroups = 4, keys = 64, stages = 2, q_buffers = 2, strips = 1, turns = true,
      reason = "256 rows: rows of 144 bytes load badly from L2; 1.17 of 192x112" }
  elseif spec.dim_v <= 80 then
    return three(112, 1, 2) -- 1.05 of 192x96 with two Q buffers
  elseif spec.dim_v <= 96 then
    return three(96, 2, 1)
  end
  -- 96 keys spill. A window of 1024 visits 1088 keys for 64 rows, and with 80 a tile 1167: 1.04.
  return three(banded() and 64 or 80, 2, v_chunks)
end

local function medium() -- to 128 columns
  -- To 72: 1.10 to 1.21 of 128x128 at 512 to 2048.
  if widest <= 72 or score.varied then return { fill_registers() } end
  local short = { warpgroups = 2, keys = 128, stages = 2, q_buffers = 2, strips = v_chunks,
    turns = true,
    reason = "128 rows waste least of a short sequence; 0.94 of the other at 2048, 0.90 at 16384" }
  short.longest_keys = mask.trivial and 1024 or 2048
  return { short, fill_registers() }
end

local function narrow_values(two_q) -- 129 to 192 columns of Q and K, of V 128 at most
  if score.varied then return { two_q } end
  local many_keys = { warpgroups = 2, keys = 128, stages = 2, q_buffers = 1, strips = 1, turns = true }
  if not mask.trivial then
    two_q.longest_keys = spec.dim_qk <= 160 and 1024 or 2048
    many_keys.reason = "1.04 of the other at 4096, 1.07 at 16384; to 160 columns 1.08 and 1.13"
    return { two_q, many_keys }
  elseif spec.dim_qk <= 160 then
    many_keys.reason = "1.01 of the other at 4096, 1.04 at 16384"
    return { { warpgroups = 2, keys = 128, stages = 2, q_buffers = 1, strips = 1, turns = true,
      q_registers = true, longest_keys = 2048,
      reason = "the next tile's Q arrives early: 1.11 and 1.09 of 128x64 at 512 and 1024" }, many_keys }
  end
  return { { warpgroups = 2, keys = 96, stages = 2, q_buffers = 1, strips = 2, turns = true,
    q_registers = true, -- with 128 keys they spill
    reason = "1.09 and 1.05 of 128x64 at 768 and 1024, 0.99 at 512; 1.01 of 128x128 at 4096" } }
end

local function wide() -- to 192 columns
  local two_q = { warpgroups = 2, keys = 64, stages = 2, q_buffers = 2,
    strips = math.min(v_chunks, 2), turns = true,
    reason = "the next tile's Q arrives early: 1.06 of one Q buffer at 512 keys" }
  if spec.dim_v <= 128 then return narrow_values(two_q) end
  local one_q = { warpgroups = 2, keys = 64, stages = 2, q_buffers = 1, strips = 3, turns = true,
    reason = "1.02 to 1.08 of 96 keys, which fill shared memory; 1.05 of two Q buffers at 4096, masked" }
  if not mask.trivial then return { one_q } end
  -- Without all maxima the error at 512 keys is 1.10 of that of kernels that split so few keys.
  two_q.every_peak, two_q.longest_keys = true, 768
  if not score.identity then return { two_q, one_q } end -- scores take the registers
  if widest <= 144 then
    return { two_q, { warpgroups = 2, keys = 96, stages = 2, q_buffers = 1, strips = 1, turns = true,
      q_registers = true, reason = "0.99 of 80 keys at 1024, 1.03 at 4096, 1.05 at 16384" } }
  end
  return { two_q, { warpgroups = 2, keys = 80, stages = 2, q_buffers = 1, strips = 2, turns = true,
    q_registers = true,
    reason = "1.02 of 64 keys and Q in shared memory at 1024, 1.01 at 4096; with 80 keys alone 1.00" } }
end

local function widest_dims() -- to 256 columns
  if row_terms > 2 or score.tables then
    return { { warpgroups = 2, keys = 48, stages = 2, q_buffers = 1, strips = 2, turns = true,
      every_peak = true,
      reason = "terms of the mask, or places in a table, need registers: 64 keys spill, 1.05 of this" } }
  end
  return { { warpgroups = 2, keys = 64, stages = 2, q_buffers = 1, strips = 2, turns = true,
    every_peak = true,
    reason = "products take 95 % of the time: maxima hide under them; turns 1.04 at 1024 and 4096" } }
end

local function chosen()
  return widest <= 64 and narrow() or widest <= 128 and medium() or widest <= 192 and wide()
      or widest_dims()
end

local entries = require("sm90.candidate").forward or chosen()

-- ---- Shared memory -----------------------------------------------------------------------------

local row_bytes, strip_bytes = 128, 16 * 128 -- of a chunk; a warp's 16 rows of one
local barrier_bytes = 1024                   -- swizzled tiles start at multiples of 1024
local block_bytes = 227 * 1024               -- the most that one block may have

for i, entry in ipairs(entries) do
  entry.name = i == #entries and "main" or "short"
  entry.threads = 128 * (entry.warpgroups + 1)
  entry.producer_registers, entry.consumer_registers = table.unpack(registers[entry.warpgroups])
  entry.k_bytes = qk_chunks * entry.keys * row_bytes
  entry.v_bytes = v_chunks * entry.keys * row_bytes
  entry.q_bytes = qk_chunks * 64 * row_bytes -- one warpgroup's rows
  entry.ring_bytes = barrier_bytes + entry.stages * (entry.k_bytes + entry.v_bytes)
  entry.warpgroup_bytes = entry.q_buffers * entry.q_bytes + 4 * entry.strips * strip_bytes
  local bytes = entry.ring_bytes + entry.warpgroups * entry.warpgroup_bytes
  assert(bytes <= block_bytes, string.format("%s: %d bytes of shared memory", entry.name, bytes))
end

local key_tiles, seen, turns, sums = {}, {}, false, false
local q_registers, q_shared = false, false
for _, entry in ipairs(entries) do
  turns = turns or entry.turns
  sums = sums or not entry.every_peak
  q_registers = q_registers or entry.q_registers
  q_shared = q_shared or not entry.q_registers
  if not seen[entry.keys] then key_tiles[#key_tiles + 1] = entry.keys end
  seen[entry.keys] = true
end

local facts = {}
for _, entry in ipairs(entries) do
  local rows = 64 * entry.warpgroups
  facts[#facts + 1] = { name = entry.name,
    value = string.format("%d rows x %d keys, %d stages, %d consumer warpgroups%s%s", rows,
      entry.keys, entry.stages, entry.warpgroups, entry.turns and " in turns" or "",
      entry.longest_keys and string.format(", to %d keys", entry.longest_keys) or ""),
    reason = entry.reason }
end

return {
  entries = entries,
  key_tiles = key_tiles,
  turns = turns, -- of any entry
  q_registers = q_registers, -- any entry has Q there
  q_shared = q_shared,       -- or multiplies it out of shared memory
  sums = sums,   -- of any entry tell when to look at the maxima
  growth = growth,
  qk_chunks = qk_chunks,
  v_chunks = v_chunks,
  barrier_bytes = barrier_bytes,
  strip_bytes = strip_bytes,
  l2_promotion = spec.dim_qk % 64 == 0 and spec.dim_v % 64 == 0 and 256 or 128, -- 128: +9 % at 72
  dynamic = not mask.trivial, -- tiles of unequal length are drawn from a counter
  facts = facts,
}
