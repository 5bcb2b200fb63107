-- sm90/walk_bwd.lua: which query tiles a block of backward visits for its key tile.

local mask, score, text = require "mask", require "score", require "expr_text"

local walk = mask.runs { walked = "q", fixed = "k", first = "key_first", last = "key_last",
                         tile = tiles.queries, tiles = "query_tiles", length = "args.seqlen_q",
                         shift = "shift", integer = "int", inside = "keys == KEYS",
                         names = require "sm90.names_bwd", all_heads = true,
                         searched = mask.searched "q" and "args.searched[at_keys.batch * "
                           .. "((args.seqlen_k + KEYS - 1) / KEYS) + key_first / KEYS]" }

walk.setup = walk.setup:gsub("= found%.end;", "= min(found.end, query_tiles);")
walk.begin, walk.finish = walk.runs[1].from, walk.runs[#walk.runs].to
-- Of a mask that is looked for, consumers may have all that depends on the query from memory.
local of_query = not mask.trivial
if mask.searched "q" and not tiles.wide then
  of_query = text.mentions(mask.by_axis(require "sm90.names_bwd", "k").kept, "q_position")
end
walk.needs_shift = of_query or score.needs_positions

-- Which tiles need the mask: "" for all of them, nil for none, else a condition on `tile`.
local conditions, runs = {}, walk.runs
for i, run in ipairs(runs) do
  if run.masked and #runs == 1 then walk.masked = "" end
  if run.masked and #runs > 1 then
    local after, ahead = string.format("tile >= %s", run.from), string.format("tile < %s", run.to)
    conditions[#conditions + 1] = i == 1 and ahead or i == #runs and after
      or string.format("(%s && %s)", after, ahead)
  end
end
if #conditions > 0 then walk.masked = table.concat(conditions, " || ") end

-- What masks that are looked for leave often ends with the same query tiles for many keys. Taken from
-- there, of each tile all heads in turn, blocks that run at once share what is in L2: of the drafter's
-- attention a third of the loads go on to memory that did in ascending order.
walk.from_end = mask.searched "q" and not spec.deterministic and not tiles.wide
walk.heads_inside = walk.from_end and spec.group > 1
walk.count = string.format("max(%s - %s, 0)", walk.finish, walk.begin)
walk.each_tile = string.format("for (int tile = %s; tile < %s; ++tile) {", walk.begin, walk.finish)
if walk.from_end then
  walk.setup = walk.setup .. "\nconst int gap_begin = found.gap_begin, gap_end = found.gap_end;"
  walk.count = "max(tile_end - tile_begin - (gap_end - gap_begin), 0)"
  -- Without a gap both of its ends are 0. A run of tiles may begin or end with it.
  walk.before = function(tile) return string.format("(%s == gap_end ? gap_begin : %s) - 1", tile, tile) end
  walk.each_tile = "for (int tile = tile_end - 1; tile >= tile_begin;\n     tile = "
      .. walk.before "tile" .. ") {"
end
if walk.heads_inside then
  walk.head_at = function(step) return "at_keys.head_kv * GROUP + " .. step .. " % GROUP" end
  walk.each_tile = "for (int step = 0, tile = tile_end - 1; tile >= tile_begin;\n"
      .. "     tile = ++step % GROUP ? tile : " .. walk.before "tile" .. ") {\n"
      .. "  const int head = " .. walk.head_at "step" .. ";"
end

-- Where all heads of a group pass by, the bounds are computed for each head: kept, they would take
-- registers that the consumers need.
local grouped = spec.group > 1

-- The C lines before the loops over query tiles: the bounds in setup, and what they refer to.
-- counted: the number of query tiles is used besides.
local function with(setup, consumer, counted)
  local uses = setup .. " " .. walk.begin .. " " .. walk.finish
  local lines = {}
  local function declare(name, line, wanted)
    if wanted or text.mentions(uses, name) then lines[#lines + 1] = line end
  end
  if consumer or uses:find("key") then
    lines[1] = string.format("const int key_first = %s;",
      grouped and "afresh(at_keys.first)" or "at_keys.first")
  end
  declare("query_tiles", "const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;", counted)
  declare("keys", "const int keys = min(KEYS, args.seqlen_k - key_first);")
  declare("key_last", "const int key_last = key_first + KEYS - 1;")
  declare("shift", "/* Positions are on the key axis: the last query stands at the last key. */\n"
    .. "const int shift = args.seqlen_k - args.seqlen_q;", consumer and walk.needs_shift)
  if setup ~= "" then lines[#lines + 1] = setup end
  return table.concat(lines, "\n")
end

-- The same for those who only need to know which tiles are visited: with all heads at each, consumers
-- are told by the warp that brings LSE and D which tile it is and whether it needs the mask.
local ends = walk.setup:gsub("const int full_[^;]*;\n?", ""):gsub("\n$", "")
walk.ends = with(ends)
walk.ends_and_runs = with(walk.setup)
walk.bounds = with(walk.heads_inside and ends or walk.setup, true, tiles.wide)
walk.ends_counted = with(ends, false, true)

return walk
