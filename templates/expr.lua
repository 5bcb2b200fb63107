-- expr.lua: the expressions of variants, as graphs. A variant file writes them with the words below
-- and Lua's + - * and & |; what is derived from them (text, derivative, tile bounds) never runs the
-- file again.
--
-- A node is { op = , type = "number" or "truth", ... }. Leaves: "const" with value, "q" and "k"
-- (positions on the key axis), "s" (the score). Inner nodes hold their operands in [1], [2].

local expr = {}

local node = {}

local function is_node(value) return getmetatable(value) == node end

local function make(op, type_name, ...)
  return setmetatable({ op = op, type = type_name, ... }, node)
end

local function operand(value, wanted, what)
  if type(value) == "number" and wanted == "number" then
    return setmetatable({ op = "const", type = "number", value = value }, node)
  end
  if not is_node(value) then
    refuse(what .. " takes expressions, not a " .. type(value) .. " value")
  end
  if value.type ~= wanted then
    refuse(what .. " takes a " .. wanted .. ", not a " .. value.type)
  end
  return value
end

local function binary(op, wanted, result, what)
  return function(a, b)
    return make(op, result, operand(a, wanted, what), operand(b, wanted, what))
  end
end

local add = binary("add", "number", "number", "+")
local subtract = binary("sub", "number", "number", "-")
local multiply = binary("mul", "number", "number", "*")

node.__add, node.__sub, node.__mul = add, subtract, multiply
node.__unm = function(a) return make("neg", "number", operand(a, "number", "-")) end
node.__band = binary("and", "truth", "truth", "&")
node.__bor = binary("or", "truth", "truth", "|")
node.__lt = function() refuse("Lua's < compares once, here; use lt(a, b) or gt(a, b)") end
node.__le = function() refuse("Lua's <= compares once, here; use le(a, b) or ge(a, b)") end
node.__eq = function() refuse("Lua's == compares once, here; use eq(a, b)") end
node.__index = function(_, key) -- a leaf has no operands
  if type(key) == "string" then refuse("an expression has no field '" .. key .. "'") end
end

expr.q, expr.k, expr.s = make("q", "number"), make("k", "number"), make("s", "number")

-- The words a variant file may use.
local variant_type = { __tostring = function() return "variant" end }
local fields = { doc = "string", keep = "function", score = "function" }

local function variant(declared)
  if type(declared) ~= "table" then refuse("variant takes a table: variant { doc = ... }") end
  for _, key in ipairs(sorted(declared)) do
    if not fields[key] then refuse("variant: unknown field '" .. tostring(key) .. "'") end
    if type(declared[key]) ~= fields[key] then
      refuse("variant: " .. key .. " must be a " .. fields[key])
    end
  end
  if not declared.doc then refuse("variant: lacks doc, a sentence that says what it does") end
  if not declared.keep and not declared.score then refuse("variant: has neither keep nor score") end
  return setmetatable(declared, variant_type)
end

expr.words = {
  variant = variant, variant_type = variant_type,
  lt = binary("lt", "number", "truth", "lt"), le = binary("le", "number", "truth", "le"),
  gt = binary("gt", "number", "truth", "gt"), ge = binary("ge", "number", "truth", "ge"),
  eq = binary("eq", "number", "truth", "eq"), ne = binary("ne", "number", "truth", "ne"),
}

-- What keep and score functions get as `at`.
expr.at = setmetatable({}, {
  __index = function(_, key)
    if key == "q" or key == "k" then return expr[key] end
    refuse("at." .. tostring(key) .. " is unknown; there are at.q and at.k")
  end,
})

function expr.check(value, wanted, what)
  if type(value) == "number" and wanted == "number" then return operand(value, wanted, what) end
  if not is_node(value) or value.type ~= wanted then
    error(what .. ": must return a " .. wanted .. " expression", 0)
  end
  return value
end

-- ---- Text ---------------------------------------------------------------------------------------

-- C spelling and precedence, higher binds tighter.
local spelling = {
  ["or"] = { "||", 1 }, ["and"] = { "&&", 2 }, eq = { "==", 3 }, ne = { "!=", 3 },
  lt = { "<", 4 }, le = { "<=", 4 }, gt = { ">", 4 }, ge = { ">=", 4 },
  add = { "+", 5 }, sub = { "-", 5 }, mul = { "*", 6 },
}

local function const_text(value, as_float)
  if math.type(value) == "integer" and not as_float then return string.format("%d", value) end
  local text = string.format("%.9g", value)
  if not text:find("[.en]") then text = text .. ".0" end
  return text .. "f"
end

-- The text of a node as C; names maps "q", "k", "s" to C names. as_float: every number is a float,
-- as in scores; else every number is an integer, as in masks. Second result: the precedence of the
-- text.
function expr.text(n, names, as_float)
  local function text(m, least)
    local result, level
    if m.op == "const" then
      result, level = const_text(m.value, as_float), m.value < 0 and 6 or 8
    elseif m.op == "q" or m.op == "k" then
      result, level = (as_float and "(float)" or "") .. names[m.op], 7
    elseif m.op == "s" then
      result, level = names.s, 8
    elseif m.op == "neg" then
      local inner = m[1].op == "neg" and 8 or 7 -- two signs in a row would be a decrement
      result, level = "-" .. text(m[1], inner), 7
    else
      local sign, precedence = spelling[m.op][1], spelling[m.op][2]
      -- && inside || is grouped as compilers advise; the right side of - needs more than its own
      -- level.
      local inner = m.op == "or" and 3 or precedence
      result = text(m[1], inner) .. " " .. sign .. " " .. text(m[2], inner + 1)
      level = precedence
    end
    return level < least and "(" .. result .. ")" or result, level
  end
  return text(n, 0)
end

-- Postfix words for a reader that shares nothing with this module: "k q sub 5 le".
function expr.postfix(n)
  if n.op == "const" then return string.format("%.17g", n.value) end
  local words = {}
  for _, child in ipairs(n) do words[#words + 1] = expr.postfix(child) end
  words[#words + 1] = n.op
  return table.concat(words, " ")
end

-- ---- Algebra -----------------------------------------------------------------------------------

local function const(value) return operand(value, "number", "const", 0) end
local function is_const(n, value) return n.op == "const" and n.value == value end

-- Sums and products without the terms that are plain 0 and 1, so that emitted text has none.
function expr.simplify(n)
  if not n[1] then return n end
  local a, b = expr.simplify(n[1]), n[2] and expr.simplify(n[2])
  if n.op == "add" then
    if is_const(a, 0) then return b elseif is_const(b, 0) then return a end
  elseif n.op == "sub" then
    if is_const(b, 0) then return a elseif is_const(a, 0) then return make("neg", "number", b) end
  elseif n.op == "mul" then
    if is_const(a, 0) or is_const(b, 0) then return const(0) end
    if is_const(a, 1) then return b elseif is_const(b, 1) then return a end
  elseif n.op == "neg" then
    if a.op == "neg" then return a[1] elseif a.op == "const" then return const(-a.value) end
  end
  return b and make(n.op, n.type, a, b) or make(n.op, n.type, a)
end

-- n with every leaf "s" replaced by `by`.
function expr.substitute_s(n, by)
  if n.op == "s" then return by end
  if not n[1] then return n end
  local a, b = expr.substitute_s(n[1], by), n[2] and expr.substitute_s(n[2], by)
  return b and make(n.op, n.type, a, b) or make(n.op, n.type, a)
end

local rules = {
  const = function() return const(0) end,
  q = function() return const(0) end,
  k = function() return const(0) end,
  s = function() return const(1) end,
  neg = function(n, d) return make("neg", "number", d(n[1])) end,
  add = function(n, d) return add(d(n[1]), d(n[2])) end,
  sub = function(n, d) return subtract(d(n[1]), d(n[2])) end,
  mul = function(n, d) return add(multiply(d(n[1]), n[2]), multiply(n[1], d(n[2]))) end,
}

-- The derivative by s, simplified.
function expr.derivative(n)
  local function d(m) return rules[m.op](m, d) end
  return expr.simplify(d(n))
end

-- Whether the leaf `op` stands in n.
function expr.depends(n, op)
  if n.op == op then return true end
  for _, child in ipairs(n) do
    if expr.depends(child, op) then return true end
  end
  return false
end

-- n as cq * q + ck * k + c with whole coefficients, or nil when it is not of that form.
function expr.linear(n)
  if n.op == "const" then
    return math.type(n.value) == "integer" and { q = 0, k = 0, c = n.value } or nil
  elseif n.op == "q" then
    return { q = 1, k = 0, c = 0 }
  elseif n.op == "k" then
    return { q = 0, k = 1, c = 0 }
  elseif n.op == "neg" then
    local a = expr.linear(n[1])
    return a and { q = -a.q, k = -a.k, c = -a.c }
  elseif n.op == "add" or n.op == "sub" then
    local a, b = expr.linear(n[1]), expr.linear(n[2])
    local sign = n.op == "add" and 1 or -1
    return a and b and { q = a.q + sign * b.q, k = a.k + sign * b.k, c = a.c + sign * b.c }
  end
end

return expr
