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
-- With names.seqlen_k, the C name of the length, keys past the end are not kept either.
function mask.predicate(names)
  if not names.seqlen_k or not mask.open_end then return (expr.text(keep, names, false)) end
  local inside = string.format("%s < %s", names.k, names.seqlen_k)
  if not keep then return inside end
  local text, level = expr.text(keep, names, false)
  return string.format(level < 2 and "%s && (%s)" or "%s && %s", inside, text)
end

-- For an oracle, which knows causal without being told by the file under test.
function mask.postfix()
  local named = conjunction("causal")
  return named and expr.postfix(named) or ""
end

-- ---- Bounds ------------------------------------------------------------------------------------
-- An interval of the walked position: { low = , high = }, both inclusive; nil means no bound.
-- `none` is the interval that holds nothing for certain. A bound is { base = , plus = }: the text
-- of a C expression, "" for none, and a number to be added.

local everything, none = {}, { empty = true }

-- Constants further out than any position are left to the predicate: sums with them could overflow.
local farthest = 1 << 40

local function text_of(bound, extra)
  local constant = bound.plus + (extra or 0)
  if bound.base == "" then return string.format("%d", constant) end
  if constant == 0 then return bound.base end
  return string.format("%s %s %d", bound.base, constant < 0 and "-" or "+", math.abs(constant))
end

-- The smaller or larger of two bounds, name "min" or "max".
local function pick(name, a, b)
  if a.base == b.base then return { base = a.base, plus = math[name](a.plus, b.plus) } end
  return { base = string.format("%s(%s, %s)", name, text_of(a), text_of(b)), plus = 0 }
end

-- Where both must hold, a missing bound leaves the other; where one is enough, none is left.
local function tighter(name, a, b) return a and b and pick(name, a, b) or a or b end
local function looser(name, a, b) return a and b and pick(name, a, b) end

local function same(a, b)
  return a == b or a and b and a.base == b.base and a.plus == b.plus
end

-- factor * name + constant, factor -1, 0 or 1.
local function bound_of(factor, name, constant)
  local sign = factor < 0 and "-" or ""
  return { base = factor == 0 and "" or sign .. name, plus = constant }
end

-- coefficient * walked + other * fixed + c <= 0, for the fixed position at `fixed`, as an interval.
local function half_line(coefficient, other, c, fixed)
  if coefficient == 1 then return { high = bound_of(-other, fixed, -c) } end
  return { low = bound_of(other, fixed, c) }
end

-- One comparison linear <= 0: the pairs that may be kept and those surely kept, for fixed positions
-- first..last. Other forms than +-walked, +-fixed are left to the predicate.
local function solve(linear, walked, fixed, first, last)
  local coefficient, other, c = linear[walked], linear[fixed], linear.c
  if math.abs(coefficient) ~= 1 or math.abs(other) > 1 or c < -farthest or c > farthest then
    return everything, none
  end
  -- The side is loosest where other * fixed is smallest.
  local loose, tight = first, last
  if other < 0 then loose, tight = last, first end
  return half_line(coefficient, other, c, loose), half_line(coefficient, other, c, tight)
end

local function both(a, b)
  if a.empty or b.empty then return none end
  return { low = tighter("max", a.low, b.low), high = tighter("min", a.high, b.high) }
end

-- An interval that holds a and b.
local function hull(a, b)
  return { low = looser("min", a.low, b.low), high = looser("max", a.high, b.high) }
end

-- An interval inside the union of a and b.
local function part_of_union(a, b)
  if a.empty then return b elseif b.empty then return a end
  if same(a.low, b.low) or same(a.high, b.high) then return hull(a, b) end
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

-- Whether a key past the end could be kept, so that a tile that holds such keys needs the mask: not
-- when no kept key stands after its query.
local function keeps_past_end()
  local high = keep and bounds(keep, { walked = "k", fixed = "q", first = "q", last = "q" }).high
  return not (high and high.base == "q" and high.plus <= 0)
end

mask.open_end = keeps_past_end()

-- ---- Runs of tiles -----------------------------------------------------------------------------
-- All of this is written in indices of the walked axis; a tile that the length cuts short is judged
-- as if it were whole, where that errs on the safe side.

local function index_of(position, walk)
  if not position or not walk.shift then return position end
  local minus = position.base == "" and "-" or position.base .. " - "
  return { base = minus .. walk.shift, plus = position.plus } -- queries sit `shift` to the right
end

-- The runs for one walk. walk: walked = "k" or "q" and fixed = the other; first, last: C names of
-- the fixed positions' range; tile: its size; tiles, length: C names of how many tiles and indices
-- there are; shift: C name of seqlen_k - seqlen_q when queries are walked; integer: the C type of
-- an index. A target that holds tiles whole, with keys past the end in the last, says so for the
-- mask to cover them: cut = true where keys are walked; where they are fixed, inside is the C name
-- of "none is past the end". Gives setup (lines of C), runs of { from, to, masked }, each from the
-- end of the one before, and longest, "first" or "last": which fixed positions visit the most. With
-- ends_only, for whoever loads tiles but does not mask them, one run.
function mask.runs(walk)
  local inside = mask.open_end and walk.inside
  if mask.trivial and not walk.cut and not inside then
    return { setup = "", runs = { { from = "0", to = walk.tiles, masked = false } } }
  end
  local setup, runs = {}, {}
  local function declare(name, format, ...)
    setup[#setup + 1] = string.format("const %s %s = " .. format .. ";", walk.integer, name, ...)
    return name
  end
  local function run(from, to, masked)
    if from ~= to then runs[#runs + 1] = { from = from, to = to, masked = masked } end
  end
  local function index(position, extra) return text_of(index_of(position, walk), extra) end

  local possible, certain = everything, everything
  if keep then possible, certain = bounds(keep, walk) end
  local longest = possible.high and not possible.low and "last"
      or possible.low and not possible.high and "first" or nil
  local tile, begin, finish = walk.tile, "0", walk.tiles
  if possible.low then
    begin = declare("tile_begin", "max(%s, 0) / %d", index(possible.low), tile)
  end
  if possible.high then
    finish = declare("tile_end", "min((max(%s, 0) + %d) / %d, %s)", index(possible.high, 1),
      tile - 1, tile, walk.tiles)
  end
  if certain.empty or walk.ends_only then
    run(begin, finish, true)
  else
    local from, to = "0", walk.tiles
    if certain.low then
      from = string.format("min((max(%s, 0) + %d) / %d, %s)", index(certain.low), tile - 1, tile,
        finish)
    end
    if inside then from = string.format("%s ? %s : %s", inside, from, finish) end
    if from ~= "0" then from = declare("full_begin", "%s", from) end
    if walk.cut then
      local past = certain.high and index(certain.high, 1)
      if past and mask.open_end then past = string.format("min(%s, %s)", past, walk.length) end
      if past then past = declare("full_past", "%s", past) end
      to = string.format("%s / %d", past or walk.length, tile)
      if past or from ~= "0" then to = string.format("max(%s, %s)", to, from) end
      to = declare("full_end", "%s", to)
    elseif certain.high then -- no tile is full when the ends have crossed
      local past = declare("full_past", "%s", index(certain.high, 1))
      to = declare("full_end", "%s >= %s\n    ? %s : max(%s / %d, %s)", past, walk.length,
        walk.tiles, past, tile, from)
    end
    run(begin, from, true)
    run(from, to, false)
    run(to, finish, true)
  end
  return { setup = table.concat(setup, "\n"), runs = runs, longest = longest }
end

return mask
