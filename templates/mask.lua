-- mask.lua: half of the seam between kernels and variants: which pairs of query and key are kept.
--
-- A kernel that walks keys for a range of queries, or queries for a range of keys, asks for the
-- runs of tiles to visit, in ascending order: tiles outside them hold no kept pair, a run that is
-- not `masked` keeps every pair, so its loop needs no mask text, and the rest asks `predicate` for
-- each pair. Bounds come from the keep expression, solved for the walked position. What cannot be
-- solved is visited with the mask: never the opposite.

local expr, linear, simplify = require "expr", require "linear", require "simplify"
local params, variant = require "params", require "variant"
local text, postfix = require "expr_text", require "postfix"
local range = require "range"

-- The keeps of all variants but `left_out`.
local function conjunction(left_out)
  local all
  for _, name in ipairs(spec.variants) do
    local keep = load_variant(name).keep
    if keep and name ~= left_out then
      local kept = keep(variant.at, params.of[name])
      all = all and expr.make("and", "truth", all, kept) or kept
    end
  end
  return all
end

local keep = conjunction()
keep = keep and simplify.graph(keep)
if keep and require "contradiction"(keep) then -- a single one is refused where it stands
  error("the masks of this spec keep no pair together", 0)
end
if keep and keep.op == "const" then keep = nil end

local mask = {
  trivial = keep == nil, keep = keep,
  -- Whether bounds of runs may name names.far.
  needs_far = keep ~= nil and expr.any(keep, function(n)
    return n.op == "param" or n.op == "table" or n.op == "length"
        or n.type == "truth" and linear.uniform(n)
  end),
}

-- Where instructions count, "the same for all pairs, or a comparison" becomes one comparison, with a
-- number past every position in the first case; it is formed once, before the loops.
local past_all = expr.const(1 << 29) -- as names.far of GPU targets
local far_side = { le = past_all, lt = past_all, ge = simplify.make("neg", "int", past_all) }
far_side.gt = far_side.ge

local function one_comparison(n)
  if n.op ~= "or" then return n end
  local u, c = n[1], n[2]
  if not linear.uniform(u) then u, c = c, u end
  if not linear.uniform(u) or not far_side[c.op] or c[1].type ~= "int" or linear.uniform(c[1])
    or linear.depends(c[2])[linear.depends(c[1]).k and "k" or "q"] then
    return n
  end
  return expr.make(c.op, "truth", c[1], expr.make("select", "int", u, far_side[c.op], c[2]))
end

-- x // b == y // b is y // b * b <= x < y // b * b + b, where b is more than 0: the side of the
-- queries is formed once for a row, and that of the keys divides no more.
local function without_division(n)
  local x, y = n[1], n[2]
  if n.op ~= "eq" or x.op ~= "idiv" or y.op ~= "idiv" or x.type ~= "int" or x[2].id ~= y[2].id
    or range.of(x[2])[1] < 1 then
    return n
  end
  if linear.depends(y[1]).k then x, y = y, x end
  local first = expr.make("mul", "int", y, y[2])
  return expr.make("and", "truth", expr.make("ge", "truth", x[1], first),
    expr.make("lt", "truth", x[1], expr.make("add", "int", first, y[2])))
end

-- (k - q) % m == 0 is k % m == q % m: each side is formed once for a row or a column.
local function without_difference(n)
  local x, zero = n[1], n[2]
  if n.op ~= "eq" or x.op ~= "mod" or x.type ~= "int" or zero.op ~= "const" or zero.value ~= 0
    or range.of(x[2])[1] < 1 or not linear.uniform(x[2]) then
    return n
  end
  local sum = linear.sum(x[1])
  if not sum or sum.q * sum.k ~= -1 or sum.c ~= 0 or #sum.atoms > 0 then return n end
  local function rest(name) return expr.make("mod", "int", expr.symbol(name), x[2]) end
  return expr.make("eq", "truth", rest "k", rest "q")
end

local function compared_once(n)
  if n.type ~= "truth" or not n[1] then return n end
  if n[1].type ~= "truth" then return without_difference(without_division(n)) end
  return one_comparison(expr.make(n.op, "truth", compared_once(n[1]), n[2] and compared_once(n[2]),
    n[3] and compared_once(n[3])))
end

-- ---- Bands ----
-- Two limits of k - q that are the same for all pairs, or numbers, are one comparison of unsigned
-- numbers: low <= k - q <= high is k - (q + low) < high - low + 1, where what is below 0 counts as large.

-- What a comparison says of k - q: { low = node } or { high = node }; nil when it says something else.
local function limit_of(n)
  if not far_side[n.op] or n[1].type ~= "int" then return nil end
  local x, y = linear.sum(n[1]), n[2]
  if not x or x.q * x.k ~= -1 or x.c ~= 0 or #x.atoms > 0 or not linear.uniform(y) then
    -- k <= q and its like
    local d = linear.difference(n[1], n[2])
    if not d or d.q * d.k ~= -1 or #d.atoms > 0 then return nil end
    x, y = d, expr.const(-d.c)
  end
  local strict = (n.op == "lt" or n.op == "gt") and 1 or 0
  local at_most = n.op == "le" or n.op == "lt"
  if x.k < 0 then y, at_most = simplify.make("neg", "int", y), not at_most end
  if at_most then return { high = simplify.make("sub", "int", y, expr.const(strict)) } end
  return { low = simplify.make("add", "int", y, expr.const(strict)) }
end

-- A limit further out than any position means the same there, and leaves room for sums.
local function held(limit)
  local reach = range.of(limit)
  if reach[2] > past_all.value then limit = simplify.make("min", "int", limit, past_all) end
  if reach[1] < -past_all.value then
    limit = simplify.make("max", "int", limit, simplify.make("neg", "int", past_all))
  end
  return limit
end

local function in_one_band(n)
  local others, low, high
  local function both_or(op, a, b) return a and simplify.make(op, "int", a, b) or b end
  local function visit(m)
    if m.op == "and" then
      visit(m[1])
      return visit(m[2])
    end
    local limit = limit_of(m)
    if not limit then
      others = others and expr.make("and", "truth", others, m) or m
    elseif limit.low then
      low = both_or("max", low, limit.low)
    else
      high = both_or("min", high, limit.high)
    end
  end
  visit(n)
  if not low or not high then return n end
  low, high = held(low), held(high)
  local q, k = expr.symbol "q", expr.symbol "k"
  local width = simplify.make("max", "int", simplify.make("add", "int",
    simplify.make("sub", "int", high, low), expr.const(1)), expr.const(0))
  local band = expr.make("below", "truth",
    expr.make("sub", "int", k, simplify.make("add", "int", q, low)), width)
  return others and expr.make("and", "truth", band, others) or band
end

mask.pairwise = keep and spec.target ~= "cpu" and in_one_band(compared_once(keep)) or keep

-- Whether the pair is kept, as a C expression over what names gives: see expr_text.lua. With
-- names.seqlen_k, the C name of the length, keys past the end are not kept either.
function mask.predicate(names)
  local inside = names.seqlen_k and mask.open_end
      and string.format("%s < %s", names.k, names.seqlen_k)
  if not keep then return inside or "1" end
  local kept = text.inline(mask.pairwise, names, inside and 2)
  return inside and inside .. (names.eager and " & " or " && ") .. kept or kept
end

-- The predicate for a target that looks for tiles, where a thread has two positions, `row`, of the axis
-- `rows` and many, one at a time, of the other. Its terms that change along one axis are formed once
-- a position, and truths are joined without branches: masks look things up and divide. Gives of_row
-- and of_column, the { c_type, name, text } of these terms, those of rows as arrays, and kept.
function mask.by_axis(names, rows)
  local form = {}
  names = text.names_with(names, { eager = true })
  form.of_row, names = text.along(rows, { mask.pairwise }, names, "row")
  form.of_column, names = text.along(rows == "q" and "k" or "q", { mask.pairwise }, names)
  form.kept = mask.predicate(names)
  return form
end

-- For an oracle, which knows causal without being told by the file under test.
function mask.postfix()
  local named = conjunction("causal")
  return named and postfix(named) or ""
end

-- ---- Bounds ------------------------------------------------------------------------------------
-- An interval of the walked position: { low = , high = }, both inclusive; nil means no bound.
-- `none` is the interval that holds nothing for certain. A bound is { base = , plus = }: the text
-- of a C expression, "" for none, and a number to be added.

local everything, none = {}, { empty = true }

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

-- Where integers have 32 bits, a term of a bound is held so near that sums with positions are safe. A
-- bound that is further out than any position means the same nearer.
local nearest = 2.0 ^ 29
local function held_near(term, node, far)
  local reach = range.of(node)
  if reach[2] > nearest then term = string.format("min(%s, %s)", term, far) end
  if reach[1] < -nearest then term = string.format("max(%s, -%s)", term, far) end
  return term
end

-- sign * (by * name + the sum's uniform terms + its constant), sign 1 or -1, by -1, 0 or 1.
local function bound_of(sign, by, name, sum, names)
  local base = by * sign == 0 and "" or (by * sign < 0 and "-" or "") .. name
  for _, atom in ipairs(sum.atoms) do
    local factor = atom.by * sign
    local term = text.inline(atom.node, names, 6)
    if names.integer == "int" then term = held_near(term, atom.node, names.far) end
    if math.abs(factor) ~= 1 then term = string.format("%d * %s", math.abs(factor), term) end
    if base == "" then
      base = factor < 0 and "-" .. term or term
    else
      base = base .. (factor < 0 and " - " or " + ") .. term
    end
  end
  return { base = base, plus = sign * sum.c }
end

-- One comparison sum <= 0: the pairs that may be kept and those surely kept, for the fixed positions
-- of the walk. Other forms than +-walked, +-fixed are left to the predicate.
local function solve(sum, walk)
  local coefficient, other = sum[walk.walked], sum[walk.fixed]
  local steep = math.abs(coefficient) ~= 1 or math.abs(other) > 1
  for _, atom in ipairs(sum.atoms) do
    steep = steep or walk.names.integer == "int" and math.abs(atom.by) > 1
        or walk.all_heads and linear.depends(atom.node).head
  end
  if steep then
    walk.unsolved = true
    return everything, none
  end
  walk.falls = walk.falls or coefficient * other > 0
  -- The side is loosest where other * fixed is smallest.
  local loose, tight = walk.first, walk.last
  if other < 0 then loose, tight = walk.last, walk.first end
  local side = coefficient == 1 and "high" or "low"
  local function half_line(fixed)
    return { [side] = bound_of(-coefficient, other, fixed, sum, walk.names) }
  end
  return half_line(loose), half_line(tight)
end

local function both(a, b)
  if a.empty or b.empty then return none end
  return { low = tighter("max", a.low, b.low), high = tighter("min", a.high, b.high) }
end

-- An interval that holds a and b.
local function hull(a, b)
  if a.empty then return b elseif b.empty then return a end
  return { low = looser("min", a.low, b.low), high = looser("max", a.high, b.high) }
end

-- An interval inside the union of a and b.
local function part_of_union(a, b)
  if a.empty then return b elseif b.empty then return a end
  if same(a.low, b.low) or same(a.high, b.high) then return hull(a, b) end
  return a
end

-- ---- Conditions that are the same for all pairs -----------------------------------------------------

local function chosen(condition, a, b)
  return { base = string.format("(%s ? %s : %s)", condition, a, b), plus = 0 }
end

-- a where the condition holds, else nothing: its low end is then past every position.
local function only_if(condition, a, far)
  if a.empty then return none end
  local low = a.low and text_of(a.low) or "-" .. far
  return { low = chosen(condition, low, far), high = a.high }
end

-- Everything where the condition holds, else a.
local function or_if(condition, a, far)
  if a.empty then return only_if(condition, everything, far) end
  return {
    low = a.low and chosen(condition, "-" .. far, text_of(a.low)),
    high = a.high and chosen(condition, far, text_of(a.high)),
  }
end

local function condition_of(n, walk)
  if not linear.uniform(n) or walk.all_heads and linear.depends(n).head then return nil end
  return (text.inline(n, walk.names, 1))
end

local bounds

local function bounds_of_two(n, walk)
  local a, b = n[1], n[2]
  local condition = condition_of(a, walk)
  if not condition then
    condition = condition_of(b, walk)
    a, b = b, a
  end
  if condition then
    local possible, certain = bounds(b, walk)
    local apply = n.op == "and" and only_if or or_if
    local far = walk.names.far or "far"
    return apply(condition, possible, far), apply(condition, certain, far)
  end
  local possible_a, certain_a = bounds(n[1], walk)
  local possible_b, certain_b = bounds(n[2], walk)
  if n.op == "and" then return both(possible_a, possible_b), both(certain_a, certain_b) end
  return hull(possible_a, possible_b), part_of_union(certain_a, certain_b)
end

-- possible, certain: intervals of the walked position.
function bounds(n, walk)
  local condition = condition_of(n, walk)
  if condition then
    local interval = only_if(condition, everything, walk.names.far or "far")
    return interval, interval
  end
  if n.op == "and" or n.op == "or" then return bounds_of_two(n, walk) end
  local other = simplify.spelt_out(n)
  if other then return bounds(other, walk) end
  local difference = n[2] and linear.difference(n[1], n[2])
  if not difference then
    walk.unsolved = true
    return everything, none
  end
  local function compare(sign, extra) return solve(linear.shifted(difference, sign, extra), walk) end
  if n.op == "le" then return compare(1, 0) end
  if n.op == "lt" then return compare(1, 1) end
  if n.op == "ge" then return compare(-1, 0) end
  if n.op == "gt" then return compare(-1, 1) end
  if n.op == "eq" then
    local possible_le, certain_le = compare(1, 0)
    local possible_ge, certain_ge = compare(-1, 0)
    return both(possible_le, possible_ge), both(certain_le, certain_ge)
  end
  local _, certain = compare(1, 1) -- ne: less, or greater, which is not certain at once
  walk.unsolved = true
  return everything, certain
end

-- Names for bounds that are looked at and not written.
local any_names = {
  q = "q", k = "k", head = "head", batch = "batch", row = "row", lengths = "", parameters = "",
  integer = "int", far = "far",
  call = setmetatable({}, { __index = function(_, name) return name end }),
}

-- Whether a key past the end could be kept, so that a tile that holds such keys needs the mask: not
-- when no kept key stands after its query.
local function keeps_past_end(n)
  if not n then return true end
  if n.op == "and" then return keeps_past_end(n[1]) and keeps_past_end(n[2]) end
  local high = bounds(n, { walked = "k", fixed = "q", first = "q", last = "q",
    names = any_names }).high
  return not (high and high.base == "q" and high.plus <= 0)
end

mask.open_end = keeps_past_end(keep)

-- Whether a GPU target should have the tiles of each walk looked for before the kernel runs, by
-- gpu_search.cu.lua, since their bounds cannot be solved. Keys are walked for one head, queries for
-- all heads that share a key.
function mask.searched(walked)
  if not keep or spec.target == "cpu" then return false end
  if walked == "q" and linear.depends(keep).head then return false end
  local walk = { walked = walked, fixed = walked == "k" and "q" or "k", first = "first",
    last = "last", names = any_names }
  bounds(keep, walk)
  if not walk.unsolved then return false end
  local _, may, must = require("interval").of(keep, any_names)
  return may ~= "1" or must ~= "0"
end

-- ---- Runs of tiles -----------------------------------------------------------------------------
-- All of this is written in indices of the walked axis; a tile that the length cuts short is judged
-- as if it were whole, where that errs on the safe side.

local function index_of(position, walk)
  if not position or not walk.shift then return position end
  local minus = position.base == "" and "-" or position.base .. " - "
  return { base = minus .. walk.shift, plus = position.plus } -- queries sit `shift` to the right
end

-- The runs that a search has found: tile_begin, full_begin, full_end, tile_end for each index.
local function searched_runs(walk)
  local lines = { text.wrap(string.format("const tile_bounds &found = %s;", walk.searched)) }
  for _, bound in ipairs { "tile_begin = begin", "full_begin", "full_end", "tile_end = end" } do
    local name, member = bound:match "^(%a+_%a+) = (.*)"
    lines[#lines + 1] = string.format("const int %s = found.%s;", name or bound, member or bound)
  end
  return { setup = table.concat(lines, "\n"), runs = {
    { from = "tile_begin", to = "full_begin", masked = true },
    { from = "full_begin", to = "full_end", masked = false },
    { from = "full_end", to = "tile_end", masked = true },
  } }
end

-- The runs for one walk. walk: walked = "k" or "q" and fixed = the other; first, last: C names of
-- the fixed positions' range; tile: its size; tiles, length: C names of how many tiles and indices
-- there are; shift: C name of seqlen_k - seqlen_q when queries are walked; integer: the C type of
-- an index; names: as for the predicate, and far, a number past every position. A target that holds
-- tiles whole, with keys past the end in the last, says so for the mask to cover them: cut = true
-- where keys are walked; where they are fixed, inside is the C name of "none is past the end". With
-- all_heads the bounds hold for all query heads at once. searched is the C name of the fixed
-- positions' tile_bounds, where these have been looked for before. Gives
--   setup     lines of C
--   runs      { from, to, masked }, each from the end of the one before
--   longest   "first" or "last": which fixed positions visit the most
--   rising    whether both ends never fall from one fixed position to the next
--   unsolved  whether tiles of masked runs may be empty or full all the same, since not every
--             comparison could be solved
--   by_head   whether setup names the query head
-- With ends_only, for whoever loads tiles but does not mask them, there is one run.
function mask.runs(given)
  local walk = {}
  for _, key in ipairs(sorted(given)) do walk[key] = given[key] end
  walk.names = walk.names or {}
  local inside = mask.open_end and walk.inside
  if mask.trivial and not walk.cut and not inside then
    return { setup = "", rising = true,
             runs = { { from = "0", to = walk.tiles, masked = false } } }
  end
  if walk.searched then return searched_runs(walk) end
  local setup, runs = {}, {}
  local function declare(name, format, ...)
    local line = string.format("const %s %s = " .. format .. ";", walk.integer, name, ...)
    setup[#setup + 1] = #line > 92 and text.wrap(line) or line
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
  local lines = table.concat(setup, "\n")
  return { setup = lines, runs = runs, longest = longest, rising = not walk.falls,
    unsolved = walk.unsolved, by_head = walk.names.head and text.mentions(lines, walk.names.head) }
end

return mask
