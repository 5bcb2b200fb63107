-- simplify.lua: expressions without the terms that are plain 0 and 1, and without what is known while
-- they are written.

local expr, linear = require "expr", require "linear"

local simplify = {}

local function is(n, value) return n.op == "const" and n.value == value end

local function zero_of(type_name) return expr.const(type_name == "int" and 0 or 0.0) end

-- ---- Constants ----------------------------------------------------------------------------------

local fold = {
  neg = function(a) return -a end,
  abs = function(a) return math.abs(a) end,
  floor = function(a) return math.floor(a) + 0.0 end,
  real = function(a) return a + 0.0 end,
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  idiv = function(a, b) return a // b end,
  mod = function(a, b) return a % b end,
  min = function(a, b) return a <= b and a or b end,
  max = function(a, b) return a >= b and a or b end,
  lt = function(a, b) return a < b end,
  le = function(a, b) return a <= b end,
  gt = function(a, b) return a > b end,
  ge = function(a, b) return a >= b end,
  eq = function(a, b) return a == b end,
  ne = function(a, b) return a ~= b end,
  ["and"] = function(a, b) return a and b end,
  ["or"] = function(a, b) return a or b end,
  ["not"] = function(a) return not a end,
}

-- Only what stays finite and small enough to be the same in any arithmetic.
local function folded(op, a, b)
  if not fold[op] or a.op ~= "const" or b and b.op ~= "const" then return nil end
  local value = fold[op](a.value, b and b.value)
  if type(value) == "number" and not (math.abs(value) < 2.0 ^ 53) then return nil end
  return expr.const(value)
end

-- Of integers, where the difference of the two sides is a number.
local function compared(op, a, b)
  if a.type ~= "int" then return nil end
  local d = linear.difference(a, b)
  if d and d.q == 0 and d.k == 0 and #d.atoms == 0 then return expr.const(fold[op](d.c, 0)) end
end

-- ---- Rules --------------------------------------------------------------------------------------

local opposite = { lt = "ge", le = "gt", gt = "le", ge = "lt", eq = "ne", ne = "eq" }

local rules = {
  add = function(a, b)
    if is(a, 0) then return b elseif is(b, 0) then return a end
    if b.op == "neg" then return simplify.make("sub", a.type, a, b[1]) end
  end,
  sub = function(a, b)
    if is(b, 0) then return a elseif is(a, 0) then return simplify.make("neg", b.type, b) end
    if b.op == "neg" then return simplify.make("add", a.type, a, b[1]) end
  end,
  mul = function(a, b)
    if is(a, 0) or is(b, 0) then return zero_of(a.type) end
    if is(a, 1) then return b elseif is(b, 1) then return a end
    if is(a, -1) then return simplify.make("neg", b.type, b) end
    if is(b, -1) then return simplify.make("neg", a.type, a) end
  end,
  div = function(a, b)
    if is(a, 0) then return a elseif is(b, 1) then return a end
  end,
  idiv = function(a, b)
    if is(b, 1) and b.type == "int" then return a end
  end,
  neg = function(a)
    if a.op == "neg" then return a[1] end
  end,
  ["not"] = function(a)
    if a.op == "not" then return a[1] end
    if opposite[a.op] and (a[1].type == "int" or a.op == "eq" or a.op == "ne") then
      return simplify.make(opposite[a.op], "truth", a[1], a[2])
    end
  end,
  ["and"] = function(a, b)
    if is(a, true) then return b elseif is(b, true) then return a end
    if is(a, false) then return a elseif is(b, false) then return b end
    if a.id == b.id then return a end
  end,
  ["or"] = function(a, b)
    if is(a, false) then return b elseif is(b, false) then return a end
    if is(a, true) then return a elseif is(b, true) then return b end
    if a.id == b.id then return a end
  end,
  select = function(c, a, b)
    if is(c, true) then return a elseif is(c, false) then return b end
    if a.id == b.id then return a end
  end,
}
for op in ("lt le gt ge eq ne"):gmatch "%a+" do
  rules[op] = function(a, b) return compared(op, a, b) end
end

-- As expr.make, of operands that are simple already.
function simplify.make(op, type_name, a, b, c)
  return folded(op, a, b) or rules[op] and rules[op](a, b, c) or expr.make(op, type_name, a, b, c)
end

local function truth(op, a, b) return simplify.make(op, "truth", a, b) end
local function negation(n) return truth("not", n) end

-- A truth as "and", "or" comparisons, where it is none of them and can be said so; nil where not.
function simplify.spelt_out(n)
  if n.op == "select" then
    return truth("or", truth("and", n[1], n[2]), truth("and", negation(n[1]), n[3]))
  elseif n.op == "not" and (n[1].op == "and" or n[1].op == "or") then
    local op = n[1].op == "and" and "or" or "and"
    return truth(op, negation(n[1][1]), negation(n[1][2]))
  elseif n.op == "not" and n[1].op == "select" then
    return simplify.make("select", "truth", n[1][1], negation(n[1][2]), negation(n[1][3]))
  end
end

local done = {}

function simplify.graph(n)
  if not n[1] then return n end
  if not done[n.id] then
    local a, b = simplify.graph(n[1]), n[2] and simplify.graph(n[2])
    local c = n[3] and simplify.graph(n[3])
    done[n.id] = n.op == "table" and expr.with(n, a) or simplify.make(n.op, n.type, a, b, c)
  end
  return done[n.id]
end

return simplify
