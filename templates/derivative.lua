-- derivative.lua: symbolic derivatives of real expressions, made of the terms that are there already.
--
-- The branch of select that is not taken has no part in the result, not even times 0. Where abs, min
-- and max have two branches at once, their first argument's counts. Integers and truths are constant.

local expr, simplify, linear = require "expr", require "simplify", require "linear"

-- ---- Products that cancel -------------------------------------------------------------------------
-- In a derivative, unlike in what a variant's author wrote, terms may be put in another order.

local zero, one = expr.const(0.0), expr.const(1.0)

local function is_zero(n) return n.id == zero.id end

local function make(op, a, b) return simplify.make(op, "real", a, b) end

local multiply

local function negate(a) return is_zero(a) and a or make("neg", a) end

local function add(a, b) return make("add", a, b) end

local function subtract(a, b) return make("sub", a, b) end

local function divide(a, b)
  if a.op == "neg" then return negate(divide(a[1], b)) end
  return make("div", a, b)
end

function multiply(a, b)
  if is_zero(a) or is_zero(b) then return zero end
  if a.op == "neg" then return negate(multiply(a[1], b)) end
  if b.op == "neg" then return negate(multiply(a, b[1])) end
  if b.op == "div" and b[2].id == a.id then return b[1] end
  if a.op == "div" and a[2].id == b.id then return a[1] end
  if b.op == "div" then return divide(multiply(a, b[1]), b[2]) end
  return make("mul", a, b)
end

local function branch(condition, a, b)
  return simplify.make("select", "real", condition, a, b)
end

-- ---- Rules ---------------------------------------------------------------------------------------
-- Each gets the node and the derivatives of its operands.

local rules = {
  neg = function(_, da) return negate(da) end,
  add = function(_, da, db) return add(da, db) end,
  sub = function(_, da, db) return subtract(da, db) end,
  mul = function(n, da, db) return add(multiply(da, n[2]), multiply(n[1], db)) end,
  div = function(n, da, db) return divide(subtract(da, multiply(n, db)), n[2]) end,
  exp = function(n, da) return multiply(n, da) end,
  log = function(n, da) return divide(da, n[1]) end,
  tanh = function(n, da) return multiply(subtract(one, multiply(n, n)), da) end,
  sigmoid = function(n, da) return multiply(multiply(n, subtract(one, n)), da) end,
  abs = function(n, da)
    return branch(simplify.make("ge", "truth", n[1], zero), da, negate(da))
  end,
  min = function(n, da, db)
    return branch(simplify.make("le", "truth", n[1], n[2]), da, db)
  end,
  max = function(n, da, db)
    return branch(simplify.make("ge", "truth", n[1], n[2]), da, db)
  end,
  select = function(n, _, da, db) return branch(n[1], da, db) end,
}

-- The derivative of the real node n, which is simple, by the leaf or element `by`.
return function(n, by)
  local done = { [by.id] = one }
  local function d(m)
    if m.type ~= "real" or not m[1] and m.id ~= by.id then return zero end
    if not done[m.id] then
      local of = {}
      for i, child in ipairs(m) do of[i] = d(child) end
      done[m.id] = rules[m.op] and rules[m.op](m, table.unpack(of)) or zero
    end
    return done[m.id]
  end
  return d(n)
end
