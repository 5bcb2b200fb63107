-- interval.lua: what a mask keeps of a whole tile, as C: each term of the keep expression becomes the
-- range of its values over the tile's positions, q_low to q_high and k_low to k_high.
--
-- An integer term is a pair of C operands, the ends of its range. A truth is a pair too: whether it
-- may hold for some pair of the tile, and whether it must for all. What is not known is "may, need
-- not", so that a tile is never taken for empty or full when it is not certain.

local expr, linear, params = require "expr", require "linear", require "params"
local text, range = require "expr_text", require "range"

local interval = {}

local unsure = { "1", "0" }

local function declare(out, kind, n, low, high)
  local a, b = "low_" .. n.id, "high_" .. n.id
  if n.type == "truth" then a, b = "may_" .. n.id, "must_" .. n.id end
  out[#out + 1] = string.format("const %s %s = %s, %s = %s;", kind, a, low, b, high)
  return { a, b }
end

local function floor_div(a, b) return string.format("floor_div(%s, %s)", a, b) end
local function pick(name, a, b) return string.format("%s(%s, %s)", name, a, b) end

-- The least and the largest of f over the corners of two ranges.
local function corners(a, b, f)
  local first, second = {}, {}
  for i = 1, 2 do first[i], second[i] = f(a[1], b[i]), f(a[2], b[i]) end
  local function all(name)
    return pick(name, pick(name, first[1], first[2]), pick(name, second[1], second[2]))
  end
  return all "min", all "max"
end

-- Low and high end of each integer operation, of the ranges of its operands.
local ends = {
  neg = function(_, a) return "-" .. a[2], "-" .. a[1] end,
  add = function(_, a, b) return a[1] .. " + " .. b[1], a[2] .. " + " .. b[2] end,
  sub = function(_, a, b) return a[1] .. " - " .. b[2], a[2] .. " - " .. b[1] end,
  mul = function(_, a, b)
    return corners(a, b, function(x, y) return x .. " * " .. y end)
  end,
  idiv = function(_, a, b) return corners(a, b, floor_div) end,
  mod = function(n, a, b)
    if range.of(n[2])[1] <= 0 then return pick("min", b[1], "0"), "0" end
    local whole = string.format("%s == %s", floor_div(a[1], b[1]), floor_div(a[2], b[1]))
    if b[1] ~= b[2] then whole = string.format("%s == %s && %s", b[1], b[2], whole) end
    return string.format("%s ? floor_mod(%s, %s) : 0", whole, a[1], b[1]),
      string.format("%s ? floor_mod(%s, %s) : %s - 1", whole, a[2], b[1], b[2])
  end,
  min = function(_, a, b) return pick("min", a[1], b[1]), pick("min", a[2], b[2]) end,
  max = function(_, a, b) return pick("max", a[1], b[1]), pick("max", a[2], b[2]) end,
  abs = function(_, a)
    return string.format("max(max(%s, -%s), 0)", a[1], a[2]), string.format("max(-%s, %s)", a[1], a[2])
  end,
  select = function(_, c, a, b)
    local function one(i, name)
      return string.format("%s ? %s : !%s ? %s : %s", c[2], a[i], c[1], b[i], pick(name, a[i], b[i]))
    end
    return one(1, "min"), one(2, "max")
  end,
}

-- May and must of each truth, of the pairs of its operands. `is` writes a comparison of two ends.
local truths = {
  lt = function(is, a, b) return is("<", a[1], b[2]), is("<", a[2], b[1]) end,
  le = function(is, a, b) return is("<=", a[1], b[2]), is("<=", a[2], b[1]) end,
  gt = function(is, a, b) return is(">", a[2], b[1]), is(">", a[1], b[2]) end,
  ge = function(is, a, b) return is(">=", a[2], b[1]), is(">=", a[1], b[2]) end,
  eq = function(_, a, b)
    return string.format("%s <= %s && %s <= %s", a[1], b[2], b[1], a[2]),
      string.format("%s == %s && %s == %s", a[1], b[2], b[1], a[2])
  end,
  ne = function(_, a, b)
    return string.format("!(%s == %s && %s == %s)", a[1], b[2], b[1], a[2]),
      string.format("!(%s <= %s && %s <= %s)", a[1], b[2], b[1], a[2])
  end,
  ["and"] = function(_, a, b) return a[1] .. " && " .. b[1], a[2] .. " && " .. b[2] end,
  ["or"] = function(_, a, b) return a[1] .. " || " .. b[1], a[2] .. " || " .. b[2] end,
  ["not"] = function(_, a) return "!" .. a[2], "!" .. a[1] end,
  select = function(_, c, a, b)
    return string.format("(%s && %s) || (!%s && %s)", c[1], a[1], c[2], b[1]),
      string.format("(!%s || %s) && (%s || %s)", c[1], a[2], c[2], b[2])
  end,
}

-- The `is` of a comparison n: a target may have functions for reals.
local by_sign = { ["<"] = "real_lt", ["<="] = "real_le", [">"] = "real_gt", [">="] = "real_ge" }
local function comparing(n, names)
  return function(sign, a, b)
    local called = n[1].type == "real" and names.call[by_sign[sign]]
    return called and pick(called, a, b) or a .. " " .. sign .. " " .. b
  end
end

-- The range of the values of an i32 table, from `first` on.
local function scan(out, n, first, count)
  out[#out + 1] = string.format("long long low_%d, high_%d;", n.id, n.id)
  out[#out + 1] = string.format("range_of(%s, %s, &low_%d, &high_%d);", first, count, n.id, n.id)
  return { "low_" .. n.id, "high_" .. n.id }
end

local function of_param(out, n, names)
  local slot = params.slots[n.slot + 1]
  local per, base = slot.declared.per, names.parameters .. slot.field
  local first = per == "q" and string.format("q_low - %s + %s", text.length(names, "seqlen_k"),
    text.length(names, "seqlen_q")) or "k_low"
  return scan(out, n, string.format("%s + %s * %s + %s", base, names.batch,
    text.length(names, "seqlen_" .. per), first), string.format("%s_high - %s_low + 1", per, per))
end

local function of_element(out, n, names, index)
  local slot = params.slots[n.slot + 1]
  local base = names.parameters .. slot.field
  local row = slot.declared.per and string.format(" + %s * %s_length", names.head, base) or ""
  local first = string.format("within(%s, %s_length)", index[1], base)
  local last = string.format("within(%s, %s_length)", index[2], base)
  return scan(out, n, base .. row .. " + " .. first, last .. " - " .. first .. " + 1")
end

-- Whether n asks two reals, which are not the same for all pairs, to be equal: nothing is gained there.
local function is_equality_of_reals(n)
  return (n.op == "eq" or n.op == "ne") and n[1].type == "real"
end

-- The lines that find the range of n and of what it is made of; its pair of expressions.
local function find(n, names, out, known)
  if known[n.id] then return known[n.id] end
  local result
  if n.type == "real" then
    if n.op == "const" or n.op == "param" and linear.uniform(n) then
      local value = text.inline(n, names, 8)
      result = { value, value }
    elseif n.op == "real" then
      local of = find(n[1], names, out, known)
      result = of and { "(float)" .. of[1], "(float)" .. of[2] }
    end
  elseif linear.uniform(n) then
    local value = text.inline(n, names, 8)
    if n[1] then
      local kind = n.type == "int" and "long long" or "int"
      out[#out + 1] = string.format("const %s same_%d = %s;", kind, n.id, (text.inline(n, names)))
      value = "same_" .. n.id
    end
    result = { value, value }
  elseif n.op == "symbol" then
    result = { n.name .. "_low", n.name .. "_high" }
  elseif n.op == "param" then
    result = of_param(out, n, names)
  elseif is_equality_of_reals(n) then
    result = unsure
  else
    local operands = {}
    for i, child in ipairs(n) do
      operands[i] = find(child, names, out, known)
      if not operands[i] then -- of a real that is not followed
        result = n.type == "truth" and unsure
        known[n.id] = result
        return result
      end
    end
    if n.op == "table" then
      result = of_element(out, n, names, operands[1])
    elseif n.type == "int" then
      result = declare(out, "long long", n, ends[n.op](n, table.unpack(operands)))
    else
      result = declare(out, "int", n, truths[n.op](comparing(n, names), table.unpack(operands)))
    end
  end
  known[n.id] = result
  return result
end

-- The lines of C for a mask, and the C operands "may hold", "must hold".
function interval.of(keep, names)
  local out = {}
  local result = find(keep, names, out, {})
  for i, line in ipairs(out) do out[i] = text.wrap(line) end
  return table.concat(out, "\n"), result[1], result[2]
end

-- Which of batch and head those lines speak of, in this order.
function interval.places(keep, names)
  local lines, places = (interval.of(keep, names)), {}
  for _, place in ipairs { "batch", "head" } do
    if text.mentions(lines, names[place]) then places[#places + 1] = place end
  end
  return places
end

return interval
