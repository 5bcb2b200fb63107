-- expr.lua: the expressions of variants, as graphs. A variant file writes them with the words below
-- and Lua's operators; what is derived from them (text, derivative, bounds of tiles) never runs the
-- file again.
--
-- A node is { op = , type = "truth", "int" or "real", id = , operands in [1], [2], [3] }. Equal nodes
-- are one node, so that a term that stands twice is seen to. Leaves have fields of their own:
--   const   value: a Lua integer, a float or a boolean, as the type says
--   symbol  name: "q" and "k" (positions on the key axis), "s" (the score), "scale" (which that has been
--           multiplied by, or not yet), "head", "batch", a length
--   param   slot: a scalar, or the element of a table for this head, query or key
--   table   slot, [1]: the element of a sized table at an index
--   length  slot: of a sized table
-- "real" makes a real of an int. Whole numbers stay integers until they meet a real or a "/".

local expr = {}

local node = {} -- the metatable
local known, count = {}, 0

local function is_node(value) return getmetatable(value) == node end

-- The node with these fields, operands included; key names the fields that are not operands.
local function intern(op, key, fields)
  for i = 1, 3 do
    if fields[i] then key = key .. " " .. fields[i].id end
  end
  key = op .. " " .. key
  if not known[key] then
    count = count + 1
    fields.op, fields.id = op, count
    known[key] = setmetatable(fields, node)
  end
  return known[key]
end

function expr.make(op, type_name, a, b, c)
  return intern(op, type_name, { type = type_name, a, b, c })
end

local make = expr.make

function expr.const(value)
  local kind = math.type(value)
  local type_name = kind == "integer" and "int" or kind == "float" and "real" or "truth"
  local key = kind == "float" and string.format("%.17g", value) or tostring(value)
  return intern("const", type_name .. key, { type = type_name, value = value })
end

function expr.symbol(name)
  local kind = (name == "s" or name == "scale") and "real" or "int"
  return intern("symbol", name, { type = kind, name = name })
end

function expr.param(slot, type_name)
  return intern("param", tostring(slot), { type = type_name, slot = slot })
end

function expr.element(slot, type_name, index)
  return intern("table", tostring(slot), { type = type_name, slot = slot, index })
end

function expr.length(slot)
  return intern("length", tostring(slot), { type = "int", slot = slot })
end

-- A node like n with other operands.
function expr.with(n, a, b, c)
  if n.op == "table" then return expr.element(n.slot, n.type, a) end
  return a and make(n.op, n.type, a, b, c) or n
end

-- ---- Operands -----------------------------------------------------------------------------------

local kinds = { truth = "a truth", int = "an integer", real = "a real number" }

local function operand(value, what)
  if type(value) == "number" then
    if value ~= value or value == math.huge or value == -math.huge then
      refuse(what .. " takes finite numbers, not " .. tostring(value))
    end
    return expr.const(value)
  end
  if not is_node(value) then
    local kind = type(value) == "table" and "table; index it" or type(value) .. " value"
    refuse(what .. " takes expressions, not a " .. kind)
  end
  return value
end

local function number(value, what)
  value = operand(value, what)
  if value.type == "truth" then refuse(what .. " takes a number, not a truth") end
  return value
end

local function truth(value, what)
  value = operand(value, what)
  if value.type ~= "truth" then refuse(what .. " takes a truth, not a number") end
  return value
end

local function real(value)
  if value.type == "real" then return value end
  return value.op == "const" and expr.const(value.value + 0.0) or make("real", "real", value)
end

-- Both as integers if both are, else both as reals; and what type that is.
local function alike(a, b)
  if a.type == "int" and b.type == "int" then return a, b, "int" end
  return real(a), real(b), "real"
end

-- ---- Words and operators ------------------------------------------------------------------------

local function arithmetic(op, what)
  return function(a, b)
    local x, y, kind = alike(number(a, what), number(b, what))
    return make(op, kind, x, y)
  end
end

local function comparison(op)
  return function(a, b)
    local x, y = alike(number(a, op), number(b, op))
    return make(op, "truth", x, y)
  end
end

local function connective(op, what)
  return function(a, b) return make(op, "truth", truth(a, what), truth(b, what)) end
end

local function same_kind(op, what) -- of one number
  return function(a)
    local x = number(a, what)
    return make(op, x.type, x)
  end
end

local function analytic(op)
  return function(a) return make(op, "real", real(number(a, op))) end
end

local function floor(a)
  local x = number(a, "floor")
  return x.type == "int" and x or make("floor", "real", x)
end

local function select_one(condition, a, b)
  local c = truth(condition, "select, as its first,")
  local x, y = operand(a, "select"), operand(b, "select")
  if (x.type == "truth") ~= (y.type == "truth") then
    refuse("select takes two truths or two numbers, not one of each")
  end
  if x.type == "truth" then return make("select", "truth", c, x, y) end
  local u, v, kind = alike(x, y)
  return make("select", kind, c, u, v)
end

node.__add, node.__sub = arithmetic("add", "+"), arithmetic("sub", "-")
node.__mul = arithmetic("mul", "*")
node.__idiv, node.__mod = arithmetic("idiv", "//"), arithmetic("mod", "%")
node.__div = function(a, b)
  return make("div", "real", real(number(a, "/")), real(number(b, "/")))
end
node.__unm = same_kind("neg", "-")
node.__band, node.__bor = connective("and", "&"), connective("or", "|")
node.__bnot = function(a) return make("not", "truth", truth(a, "~")) end

-- What Lua would decide or join at once, here. Its ==, and, or, not and if never ask: variant.lua
-- looks for them in the text.
local function refused(message) return function() refuse(message) end end
node.__lt = refused "Lua's < compares once, here; use lt(a, b) or gt(a, b)"
node.__le = refused "Lua's <= compares once, here; use le(a, b) or ge(a, b)"
node.__eq = refused "Lua's == compares once, here; use eq(a, b)"
node.__pow = refused "there is no ^; write x * x, or exp(y * log(x))"
node.__bxor = refused "~ takes one truth; to compare two write a & ~b | ~a & b"
node.__shl = refused "there is no <<; write x * 2"
node.__shr = refused "there is no >>; write x // 2"
node.__concat = refused "an expression has no text to join with .."
node.__len = refused "an expression has no length"
node.__call = refused "an expression is no function"
node.__newindex = refused "an expression cannot be changed"
node.__index = function(_, key) -- a leaf has no operands
  if type(key) ~= "number" then refuse("an expression has no field '" .. tostring(key) .. "'") end
end

expr.words = {
  lt = comparison "lt", le = comparison "le", gt = comparison "gt", ge = comparison "ge",
  eq = comparison "eq", ne = comparison "ne",
  min = arithmetic("min", "min"), max = arithmetic("max", "max"), abs = same_kind("abs", "abs"),
  exp = analytic "exp", log = analytic "log", tanh = analytic "tanh",
  sigmoid = analytic "sigmoid", floor = floor, select = select_one,
}

-- An index into a table; what names the table.
function expr.index(value, what)
  local index = number(value, what)
  if index.type ~= "int" then refuse(what .. ": an index is an integer; use // to make one") end
  return index
end

-- ---- Looking at graphs --------------------------------------------------------------------------

-- Visits every node below n and n itself, operands first, each once.
function expr.each(n, visit, seen)
  seen = seen or {}
  if seen[n.id] then return end
  seen[n.id] = true
  for _, child in ipairs(n) do expr.each(child, visit, seen) end
  visit(n)
end

-- Whether some node of n is one that `is` answers true to.
function expr.any(n, is)
  local found = false
  expr.each(n, function(m) found = found or is(m) end)
  return found
end

-- n with every node that has an entry in `by`, by its id, replaced.
function expr.substitute(n, by, done)
  done = done or {}
  if by[n.id] then return by[n.id] end
  if not n[1] then return n end
  if not done[n.id] then
    local operands = {}
    for i, child in ipairs(n) do operands[i] = expr.substitute(child, by, done) end
    done[n.id] = expr.with(n, table.unpack(operands))
  end
  return done[n.id]
end

-- A graph that contains itself, which only a file that reaches into nodes can make, has no value.
local function refuse_cycles(n, above, done)
  if above[n] then refuse("an expression contains itself") end
  if done[n] then return end
  above[n] = true
  for _, child in ipairs(n) do
    if not is_node(child) then refuse("an operand of an expression was changed") end
    refuse_cycles(child, above, done)
  end
  above[n], done[n] = nil, true
end

-- What a variant's function `what` returned, as a node of the kind that is wanted: "truth", or "real",
-- which an integer becomes.
function expr.returned(value, wanted, what)
  if type(value) == "number" and wanted == "real" then return real(operand(value, what)) end
  local is = is_node(value) and value.type
  if not is or (is == "truth") ~= (wanted == "truth") then
    local wanted_words = wanted == "truth" and "a truth" or "a number"
    refuse(what .. " must return " .. wanted_words .. ", not " .. (kinds[is] or type(value)))
  end
  refuse_cycles(value, {}, {})
  return wanted == "real" and real(value) or value
end

return expr
