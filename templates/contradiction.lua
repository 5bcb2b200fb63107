-- contradiction.lua: whether a truth holds for no pair at all, whatever is launched, as its own
-- comparisons of integers say: k < q and k > q. Where that cannot be told, it may hold.

local expr, linear, simplify = require "expr", require "linear", require "simplify"
local range = require "range"

local most_steps = 1000 -- each "or" doubles what is to be looked at
local exact = 2.0 ^ 53  -- beyond, the ends of a range are rounded

-- ---- One comparison -------------------------------------------------------------------------------

-- The difference of the two sides as { q, k, c, atoms }, where also what changes from pair to pair may
-- be an atom.
local function difference(n)
  local sum = linear.difference(n[1], n[2])
  if sum then return sum end
  local c, atoms = 0, {}
  for i, by in ipairs { 1, -1 } do
    if n[i].op == "const" then
      c = c + by * n[i].value
    else
      atoms[#atoms + 1] = { node = n[i], by = by }
    end
  end
  return math.abs(c + 0.0) < exact and { q = 0, k = 0, c = c, atoms = atoms } or nil
end

-- Words for d without its constant, or for its negative, the same for all comparisons that limit it;
-- the sign, 1 or -1; and between which numbers it stays.
local function sum_without_constant(d)
  local terms = { { node = expr.symbol "q", by = d.q }, { node = expr.symbol "k", by = d.k } }
  for _, atom in ipairs(d.atoms) do terms[#terms + 1] = atom end
  table.sort(terms, function(a, b) return a.node.id < b.node.id end)
  local words, sign, low, high = {}, nil, 0.0, 0.0
  for _, term in ipairs(terms) do
    if term.by ~= 0 then
      sign = sign or (term.by < 0 and -1 or 1)
      local by, reach = term.by * sign, range.of(term.node)
      words[#words + 1] = by .. "*" .. term.node.id
      low = low + by * reach[by > 0 and 1 or 2]
      high = high + by * reach[by > 0 and 2 or 1]
    end
  end
  return table.concat(words, " "), sign or 1, { low = low, high = high }
end

local mirrored = { lt = "gt", le = "ge", gt = "lt", ge = "le", eq = "eq", ne = "ne" }

-- The ends that a comparison with v sets.
local ends = {
  lt = function(v) return -math.huge, v - 1 end,
  le = function(v) return -math.huge, v end,
  gt = function(v) return v + 1, math.huge end,
  ge = function(v) return v, math.huge end,
  eq = function(v) return v, v end,
  ne = function() return -math.huge, math.huge end,
}

-- Narrows the limits in `known`, by sum, by a comparison; whether anything is left of them.
local function narrow(known, n)
  local d = mirrored[n.op] and n[1].type == "int" and difference(n)
  if not d then return true end
  local sum, sign, limits = sum_without_constant(d)
  local op, value = sign > 0 and n.op or mirrored[n.op], -sign * d.c
  local before = known[sum] or limits
  local low, high = ends[op](value)
  low, high = math.max(low, before.low), math.min(high, before.high)
  local other = op == "ne" and { value, before.other } or before.other -- what it is not, a list
  known[sum] = { low = low, high = high, other = other }
  if math.abs(low) > exact or math.abs(high) > exact then return true end
  while low == high and other do
    if other[1] == low then return false end
    other = other[2]
  end
  return low <= high
end

-- ---- All of them ----------------------------------------------------------------------------------

local steps

local function copy(known)
  local same = {}
  for _, words in ipairs(sorted(known)) do same[words] = known[words] end
  return same
end

-- Whether all truths of the list `pending`, { node, rest }, and of `later`, which are alternatives,
-- may hold beside what is known.
local function may_hold(pending, later, known)
  while pending or later do
    if not pending then
      local either = later[1]
      return may_hold({ either[1] }, later[2], copy(known))
          or may_hold({ either[2] }, later[2], known)
    end
    local n = pending[1]
    pending, steps = pending[2], steps + 1
    if steps > most_steps then return true end
    if n.op == "and" then
      pending = { n[1], { n[2], pending } }
    elseif n.op == "or" then
      later = { n, later }
    elseif n.op == "const" then
      if not n.value then return false end
    else
      local other = simplify.spelt_out(n)
      if other then
        pending = { other, pending }
      elseif not narrow(known, n) then
        return false
      end
    end
  end
  return true
end

-- n: a simple truth.
return function(n)
  steps = 0
  return not may_hold({ n }, nil, {})
end
