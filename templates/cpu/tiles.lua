-- cpu/tiles.lua: tile sizes of the cpu target, with the reason by each number.

local function padded(columns) return (columns + 15) // 16 * 16 end -- FA_CPU_PAD of cpu/abi.h

local score = require "score"
local queries, keys = 64, 64
local ld_qk, ld_v = padded(spec.dim_qk), padded(spec.dim_v)

-- Floats of scratch by entry, in the order in which the entry takes its tiles.
local scratch = {
  fwd = queries * ld_qk + keys * ld_qk + spec.dim_qk * keys + keys * ld_v -- q k k_t v
      + queries * keys + queries * ld_v + 2 * queries,                    -- s o row_max row_sum
  bwd = keys * ld_qk + spec.dim_qk * keys + spec.dim_v * keys             -- k k_t v_t
      + queries * ld_qk + queries * ld_v + 2 * queries * keys             -- q dout s ds
      + keys * ld_qk + keys * ld_v                                        -- dk dv
      + (score.unit_derivative and 0 or queries * keys)                   -- ds_factor
      + queries * keys * score.factors,                                   -- of gradients
  pre = 0,
}

return {
  queries = queries,
  keys = keys,
  ld_qk = ld_qk,
  ld_v = ld_v,
  scratch_bytes = 4 * scratch[spec.pass],
  facts = {
    { name = "query tile", value = string.format("%d rows", queries),
      reason = "K and V tiles are loaded and converted once for this many rows" },
    { name = "key tile", value = string.format("%d keys", keys),
      reason = "scores of one tile stay in the first-level cache" },
  },
}
