-- mask.lua: half of the seam between kernels and variants: which pairs of query and key are kept.
--
-- A kernel that walks keys for a range of queries, or queries for a range of keys, asks for the
-- runs of tiles to visit, in ascending order: tiles outside them hold no kept pair, a run that is
-- not `masked` keeps every pair, so its loop needs no mask text, and the rest asks `predicate` for
-- each pair. Bounds come from the keep expression, solved for the walked position. What cannot be
-- solved is visited with the mask: never the opposite.

local expr = require "expr"

-- The keeps of all variants but `left_out`.
local function conjunction(left_out)
  local all
  for _, name in ipairs(spec.variants) do
    local variant = load_variant(name)
    if variant.keep and name ~= left_out then
      local keep = expr.check(variant.keep(expr.at), "truth", "variants/" .. name .. ".lua: keep")
      all = all and all & keep or keep
    end
  end
  return all
end

local keep = conjunction()

local mask = { trivial = keep == nil }

-- Whether the pair is kept, as a C expression over the positions that names gives for "q" and "k".
function mask.predicate(names)
  return (expr.text(keep, names, false))
end

-- For an oracle, which knows causal without being told by the file under test.
function mask.postfix()
  local named = conjunction("causal")
  return named and expr.postfix(named) or ""
end

-- ---- Bounds ------------------------------------------------------------------------------------
-- An interval of the walked position: { low = , high = }, texts of C expressions, both inclusive;
-- nil means no bound. `none` is the interval that holds nothing for certain.

local everything, none = {}, { empty = true }

local function plus(text, constant)
  if constant == 0 then return text end
  if text == "" then return string.format("%d", constant) end
  return string.format("%s %s %d", text, constant < 0 and "-" or "+", math.abs(constant))
end

local function pick(name, a, b)
  if a == nil or b == nil then return a or b end
  if a == b then return a end
  return string.format("%s(%s, %s)", name, a, b)
end

-- coefficient * walked + other * fixed + c <= 0, for the fixed position at `fixed`, as an interval.
local function half_line(coefficient, other, c, fixed)
  if coefficient == 1 then -- walked <= -other * fixed - c
    if other == 0 then return { high = plus("", -c) } end
    return { high = plus((other == 1 and "-" or "") .. fixed, -c) }
  end
  if other == 0 then return { low = plus("", c) } end -- -walked ...: walked >= other * fixed + c
  return { low = plus((other == -1 and "-" or "") .. fixed, c) }
end

-- One comparison linear <= 0: the pairs that may be kept and those surely kept, for fixed positions
-- first..last. Other forms than +-walked, +-fixed are left to the predicate.
local function solve(linear, walked, fixed, first, last)
  local coefficient, other = linear[walked], linear[fixed]
  if math.abs(coefficient) ~= 1 or math.abs(other) > 1 then return everything, none end
  -- The side is loosest where other * fixed is smallest.
  local loose, tight = first, last
  if other < 0 then loose, tight = last, first end
  return half_line(coefficient, other, linear.c, loose),
      half_line(coefficient, other, linear.c, tight)
end

local function both(a, b)
  if a.empty or b.empty then return none end
  return { low = pick("max", a.low, b.low), high = pick("min", a.high, b.high) }
end

-- An interval that holds a and b.
local function hull(a, b)
  return { low = a.low and b.low and pick("min", a.low, b.low),
           high = a.high and b.high and pick("max", a.high, b.high) }
end

-- An interval inside the union of a and b.
local function part_of_union(a, b)
  if a.empty then return b elseif b.empty then return a end
  if a.low == b.low then
    return { low = a.low, high = a.high and b.high and pick("max", a.high, b.high) }
  elseif a.high == b.high then
    return { high = a.high, low = a.low and b.low and pick("min", a.low, b.low) }
  end
  return a
end

local function negated(linear, extra)
  return { q = -linear.q, k = -linear.k, c = -linear.c + extra }
end

local function shifted(linear, extra)
  return { q = linear.q, k = linear.k, c = linear.c + extra }
end

-- possible, certain: intervals of the walked position.
local function bounds(n, walk)
  local function compare(linear)
    return solve(linear, walk.walked, walk.fixed, walk.first, walk.last)
  end
  if n.op == "and" or n.op == "or" then
    local possible_a, certain_a = bounds(n[1], walk)
    local possible_b, certain_b = bounds(n[2], walk)
    if n.op == "and" then return both(possible_a, possible_b), both(certain_a, certain_b) end
    return hull(possible_a, possible_b), part_of_union(certain_a, certain_b)
  end
  local difference = expr.linear(n[1] - n[2])
  if not difference then return everything, none end
  if n.op == "le" then return compare(difference) end
  if n.op == "lt" then return compare(shifted(difference, 1)) end
  if n.op == "ge" then return compare(negated(difference, 0)) end
  if n.op == "gt" then return compare(negated(difference, 1)) end
  local possible_a, certain_a = compare(n.op == "eq" and difference or shifted(difference, 1))
  local possible_b, certain_b = compare(negated(difference, n.op == "eq" and 0 or 1))
  if n.op == "eq" then return both(possible_a, possible_b), both(certain_a, certain_b) end
  return hull(possible_a, possible_b), part_of_union(certain_a, certain_b)
end

-- ---- Runs of tiles -----------------------------------------------------------------------------

-- Position of an index on its axis and back: queries sit `shift` further right on the key axis.
local function as_index(text, walk)
  return walk.shift and string.format("%s - %s", text, walk.shift) or text
end

-- The first tile that holds an index >= low, resp. whose indices are all >= low.
local function tile_from(low, walk, whole)
  if not low then return "0" end
  local index = string.format("max(%s, 0)", as_index(low, walk))
  return whole and string.format("(%s + %d) / %d", index, walk.tile - 1, walk.tile)
      or string.format("%s / %d", index, walk.tile)
end

-- One past the last tile that holds an index <= high, resp. whose indices are all <= high. The last
-- tile may be cut short by the length.
local function tile_to(high, walk, whole)
  if not high then return walk.tiles end
  local past = plus(as_index(high, walk), 1)
  if not whole then
    return string.format("min((max(%s, 0) + %d) / %d, %s)", past, walk.tile - 1, walk.tile,
      walk.tiles)
  end
  return string.format("%s >= %s ? %s : max(%s, 0) / %d", past, walk.length, walk.tiles, past,
    walk.tile)
end

local function constant(walk, name, text)
  return string.format("const %s %s = %s;", walk.integer, name, text)
end

-- The runs for one walk. walk: walked = "k" or "q" and fixed = the other; first, last: C names of
-- the fixed positions' range; tile: its size; tiles, length: C names of how many tiles and indices
-- there are; shift: C name of seqlen_k - seqlen_q when queries are walked; integer: the C type of
-- an index. Gives setup (lines of C) and runs of { from, to, masked }.
function mask.runs(walk)
  if mask.trivial then
    return { setup = "", runs = { { from = "0", to = walk.tiles, masked = false } } }
  end
  local possible, certain = bounds(keep, walk)
  local setup, runs = {}, {}
  local function declare(name, text)
    if text == "0" or text == walk.tiles then return text end
    setup[#setup + 1] = constant(walk, name, text)
    return name
  end
  local function run(from, to, masked)
    if from ~= to then runs[#runs + 1] = { from = from, to = to, masked = masked } end
  end
  local begin = declare("tile_begin", tile_from(possible.low, walk, false))
  local finish = declare("tile_end", tile_to(possible.high, walk, false))
  if certain.empty then
    run(begin, finish, true)
  else
    local from = tile_from(certain.low, walk, true)
    local to = tile_to(certain.high, walk, true)
    -- A run bounded on both sides may be empty, its ends crossed: it then closes at its start.
    if from ~= "0" then from = declare("full_begin", string.format("min(%s, %s)", from, finish)) end
    if from ~= "0" and to ~= walk.tiles then to = string.format("max(%s, %s)", from, to) end
    to = declare("full_end", to)
    run(begin, from, true)
    run(from, to, false)
    run(to, finish, true)
  end
  return { setup = table.concat(setup, "\n"), runs = runs }
end

return mask
