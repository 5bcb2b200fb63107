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

-- Blocks take key tiles that visit the most first. Under `det`, where a block follows the one before
-- it at every query tile, it then begins where its walk is not bounded: the others have gone ahead.
walk.ascending = walk.longest == "first"
walk.down = spec.deterministic and walk.ascending and walk.rising

-- What masks that are looked for leave often ends with the same query tiles for many keys. Taken from
-- there, of each tile all heads in turn, blocks that run at once share what is in L2: of the drafter's
-- attention a third of the loads go on to memory that did in ascending order.
walk.from_end = mask.searched "q" and not spec.deterministic and not tiles.wide
local before = function(tile) return tile .. " - 1" end
if walk.from_end then
  walk.setup = walk.setup .. "\nconst int gap_begin = found.gap_begin, gap_end = found.gap_end;"
  -- Without a gap both of its ends are 0. A run of tiles may begin or end with it.
  before = function(tile) return string.format("(%s == gap_end ? gap_begin : %s) - 1", tile, tile) end
end

-- The loop over query tiles from one to another, and its brace.
function walk.loop(from, to)
  if walk.from_end then
    return string.format("for (int tile = %s; tile >= %s;\n     tile = %s) {", before(to), from,
      before "tile")
  elseif walk.down then
    return string.format("for (int tile = %s - 1; tile >= %s; --tile) {", to, from)
  end
  return string.format("for (int tile = %s; tile < %s; ++tile) {", from, to)
end
walk.tiles = walk.loop(walk.begin, walk.finish)
-- How many visits a block makes, if it is more than 0.
walk.visits = walk.begin == "0" and walk.finish or "(" .. walk.finish .. " - " .. walk.begin .. ")"
if spec.group > 1 then
  walk.visits = walk.visits .. (tiles.divided and " * args.members" or " * GROUP")
end
walk.runs_in_order = {}
for i, run in ipairs(runs) do
  walk.runs_in_order[(walk.from_end or walk.down) and #runs + 1 - i or i] = run
end

-- All visits of a block. Turns of `det` go on from tile to tile, too: were they to go on from head to
-- head, a block with few tiles would wait for those with many at every head.
walk.open = walk.tiles
walk.heads_inside = walk.from_end and spec.group > 1
if walk.heads_inside then
  walk.count = "max(tile_end - tile_begin - (gap_end - gap_begin), 0)"
  walk.head_at = function(step) return "at_keys.head_kv * GROUP + " .. step .. " % GROUP" end
  walk.open = "for (int step = 0, tile = tile_end - 1; tile >= tile_begin;\n"
      .. "     tile = ++step % GROUP ? tile : " .. before "tile" .. ") {\n"
      .. "  const int head = " .. walk.head_at "step" .. ";"
elseif spec.group > 1 then
  local outer, inner = tiles.each_head .. " {", walk.tiles
  if spec.deterministic then outer, inner = inner, outer end
  walk.open = outer:sub(1, -3) .. "\n#pragma unroll 1\n" .. inner
end

-- Turns of `det`, counted as tiles and heads are visited: of this visit, from 1 on, of the tiles before
-- the first visited, nil for none, and of all.
local function turns(tiles_passed)
  return spec.group > 1 and "(" .. tiles_passed .. ") * GROUP" or tiles_passed
end
walk.turn = walk.down and "query_tiles - tile" or "tile + 1"
if spec.group > 1 then
  walk.turn = string.format("(%s - at_keys.head_kv) * GROUP + head + 1",
    walk.down and "query_tiles - 1 - tile" or "tile")
end
walk.turns = turns "query_tiles"
if walk.down and walk.finish ~= "query_tiles" then
  walk.skipped = turns("query_tiles - " .. walk.finish)
elseif not walk.down and walk.begin ~= "0" then
  walk.skipped = turns(walk.begin)
end

-- The C lines before the loops over query tiles: the bounds in setup, and what they refer to.
-- counted: the number of query tiles is used besides.
local function with(setup, consumer, counted)
  local uses = setup .. " " .. walk.begin .. " " .. walk.finish
  local lines = {}
  local function declare(name, line, wanted)
    if wanted or text.mentions(uses, name) then lines[#lines + 1] = line end
  end
  if consumer or uses:find("key") then
    lines[1] = "const int key_first = at_keys.first;"
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
