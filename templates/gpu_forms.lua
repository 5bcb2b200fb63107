-- gpu_forms.lua: a score as a loop over keys reckons it in few instructions: factors that are the same
-- for all pairs become one, the mask tells signs, products join sums, and what grows evenly along the
-- keys is one multiply-add from where the row begins. Beside what was written, roundings differ.
--
-- Some operations exist only here:
--   fma        [1] * [2] + [3], rounded once
--   affine     [1] at the position of its pair, where it changes by [2] with each key
--   inverse    1 / [1], which is between 1 and 2^31, so that four of them have a product
--   and_power  1 + 2^[1], where [1] is held at 30

local expr, linear, params = require "expr", require "linear", require "params"
local simplify = require "simplify"

local forms = {}

local function real(op, a, b, c) return simplify.make(op, "real", a, b, c) end

-- ---- Signs that the mask tells ---------------------------------------------------------------------

-- Sums that are 0 or less for every pair that is kept.
local function held_below(keep)
  local sums = {}
  local function take(n)
    if n.op == "and" then
      take(n[1])
      take(n[2])
    end
    local difference = n[1] and n[1].type == "int" and n[2] and linear.difference(n[1], n[2])
    local sign = (n.op == "le" or n.op == "lt") and 1 or (n.op == "ge" or n.op == "gt") and -1
    if difference and sign then
      sums[#sums + 1] = linear.shifted(difference, sign, (n.op == "lt" or n.op == "gt") and 1 or 0)
    end
  end
  if keep then take(keep) end
  return sums
end

-- Whether sign * n is 0 or less for every pair that is kept.
local function stays_below(n, sign, below)
  local sum = linear.sum(n)
  if not sum then return false end
  for _, held in ipairs(below) do
    local same = #sum.atoms == 0 and #held.atoms == 0
      and held.q == sign * sum.q and held.k == sign * sum.k
    if same and sign * sum.c <= held.c then return true end
  end
  return false
end

local function without_sign(n, below)
  if stays_below(n, -1, below) then return n end
  if stays_below(n, 1, below) then return simplify.make("neg", n.type, n) end
end

-- ---- Factors and sums --------------------------------------------------------------------------------

-- a * b, with what is the same for all pairs in one factor.
local function product(a, b)
  if linear.uniform(a) and not linear.uniform(b) then a, b = b, a end
  if linear.uniform(b) and a.op == "mul" and linear.uniform(a[2]) then
    return real("mul", a[1], real("mul", a[2], b))
  end
  return real("mul", a, b)
end

-- How much n changes with each key: a term that is the same for all pairs; nil when it is not so.
local function growth(n)
  local on = linear.depends(n)
  if on.s or n.type ~= "real" then return nil end
  if not on.k then return expr.const(0.0) end
  if n.op == "real" then
    local sum = linear.sum(n[1])
    return sum and expr.const(sum.k + 0.0)
  elseif n.op == "neg" then
    local of = growth(n[1])
    return of and real("neg", of)
  elseif n.op == "mul" and linear.uniform(n[2]) then
    local of = growth(n[1])
    return of and real("mul", of, n[2])
  elseif n.op == "add" or n.op == "sub" then
    local a, b = growth(n[1]), growth(n[2])
    return a and b and real(n.op, a, b)
  end
end

-- n, or what stands for it where it grows evenly.
local function evenly(n)
  local of = linear.depends(n).k and growth(n)
  return of and expr.make("affine", "real", n, of) or n
end

-- a + b, where one is a product with the score in it.
local function sum(a, b)
  local function joined(p, rest)
    if p.op == "mul" and linear.depends(p).s then return expr.make("fma", "real", p[1], p[2], rest) end
  end
  return joined(a, b) or joined(b, a) or real("add", a, b)
end

local function negative(n)
  return n.op == "mul" and product(n[1], real("neg", n[2])) or real("neg", n)
end

-- tanh(x) = 1 - 2 / (1 + e^2x), absolute error 2^-22; the hardware's own tanh has 2^-11.
local function tanh(x)
  local divisor = expr.make("and_power", "real", product(x, expr.const(2.8853900817779268)))
  return expr.make("fma", "real", expr.make("inverse", "real", divisor), expr.const(-2.0),
    expr.const(1.0))
end

-- ---- All together ------------------------------------------------------------------------------------

local function rewrite(n, below, done)
  if not n[1] or n.type ~= "real" then return n end
  if done[n.id] then return done[n.id] end
  local result
  if n.op == "real" and n[1].op == "abs" then
    local plain = without_sign(n[1][1], below)
    result = plain and real("real", plain) or real("abs", evenly(real("real", n[1][1])))
  else
    local operands = {}
    for i, child in ipairs(n) do operands[i] = rewrite(child, below, done) end
    local a, b = operands[1], operands[2]
    if n.op == "mul" then
      result = product(a, b)
    elseif n.op == "tanh" then
      result = tanh(a)
    else
      result = n.op == "table" and n or simplify.make(n.op, "real", table.unpack(operands))
      local adds = result.op == "add" or result.op == "sub"
      if adds and not growth(result) then
        result = sum(evenly(a), evenly(n.op == "add" and b or negative(b)))
      end
    end
  end
  done[n.id] = result
  return result
end

-- Whether n is more than 0, whatever is launched.
local function positive(n)
  if n.op == "mul" then return positive(n[1]) and positive(n[2]) end
  if n.op == "param" then
    local declared = params.slots[n.slot + 1].declared
    return (declared.above or -1) >= 0 or (declared.min or 0) > 0
  end
  return n.op == "const" and n.value > 0
end

-- n in such forms, where the score that it speaks of is s times the scale; and nil, or a factor that it
-- still needs, which is the same for all pairs of a launch and more than 0.
function forms.of(n, keep)
  local s = expr.symbol "s"
  n = expr.substitute(n, { [s.id] = real("mul", s, expr.symbol "scale") })
  n = rewrite(n, held_below(keep), {})
  if n.op == "mul" and linear.uniform(n[2]) and positive(n[2]) and not linear.depends(n[2]).head then
    return n[1], n[2]
  end
  return n
end

return forms
