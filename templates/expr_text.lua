-- expr_text.lua: expressions as C.
--
-- `names` says what a kernel calls things: q, k (positions), s, head, batch, row and key (the indices
-- of query and key; key is k's where it is not given); lengths and parameters, what stands before the
-- name of a length and of a parameter ("a->", "a->p."); scale, which s has not been multiplied by yet;
-- step, how many keys past the one that affine terms begin with; integer, the C type of integers; call,
-- the C function for an operation without a sign, or for one on reals in place of it ("real_add");
-- known, C names of terms that have one, by their node's id; eager, that truths are joined without
-- branches, for which all of them are looked at. A kernel that lacks a name cannot be asked for what
-- needs it: the spec is refused.

local expr, params, range = require "expr", require "params", require "range"
local linear = require "linear"

local text = {}

-- ---- Numbers ------------------------------------------------------------------------------------

local function constant(n)
  if n.type == "truth" then return n.value and "1" or "0" end
  if n.type == "int" then return string.format("%d", n.value) end
  local digits = string.format("%.9g", n.value)
  if not digits:find("[.en]") then digits = digits .. ".0" end
  return digits .. "f"
end

-- ---- Leaves -------------------------------------------------------------------------------------

local function named(names, name, what)
  return names[name] or unsupported(string.format("target %s: this version has no %s in a %s kernel",
    spec.target, what, spec.pass))
end

local function parameters(names, slot)
  return named(names, "parameters", "parameters of variants (" .. slot.variant .. "." .. slot.name
    .. ")") .. slot.field
end

-- The C expression of a length: "seqlen_q", "heads_kv".
function text.length(names, name)
  return names[name] or named(names, "lengths", "at." .. name) .. name
end

local function element(n, names)
  local slot = params.slots[n.slot + 1]
  local base, per = parameters(names, slot), slot.declared.per
  if per == "head" then return base .. "[" .. named(names, "head", "at.head") .. "]" end
  if not per then return base end
  local index = per == "q" and named(names, "row", "parameters of queries") or names.key or names.k
  return string.format("%s[%s * %s + %s]", base, named(names, "batch", "at.batch"),
    text.length(names, "seqlen_" .. per), index)
end

-- The element of a sized table at an index that may be past its ends.
local function indexed(n, names, index)
  local slot = params.slots[n.slot + 1]
  local base = parameters(names, slot)
  local within = string.format("within(%s, %s_length)", index, base)
  if slot.declared.per then
    return string.format("%s[%s * %s_length + %s]", base, named(names, "head", "at.head"), base,
      within)
  end
  return base .. "[" .. within .. "]"
end

local function leaf(n, names)
  if n.op == "param" then return element(n, names), 8 end
  if n.op == "length" then return parameters(names, params.slots[n.slot + 1]) .. "_length", 8 end
  if n.name == "scale" then return named(names, "scale", "scale of its own"), 8 end
  if n.name == "q" or n.name == "k" or n.name == "s" then
    return names[n.name], n.name == "s" and 8 or 7
  elseif n.name == "head" or n.name == "batch" then
    return named(names, n.name, "at." .. n.name), 7
  end
  return text.length(names, n.name), 7
end

-- ---- Operations ---------------------------------------------------------------------------------

-- C spelling and precedence, higher binds tighter.
local spelling = {
  ["or"] = { "||", 1 }, ["and"] = { "&&", 2 }, eq = { "==", 3 }, ne = { "!=", 3 },
  lt = { "<", 4 }, le = { "<=", 4 }, gt = { ">", 4 }, ge = { ">=", 4 },
  add = { "+", 5 }, sub = { "-", 5 }, mul = { "*", 6 }, div = { "/", 6 },
  idiv = { "/", 6 }, mod = { "%", 6 },
}

local eager_spelling = { ["or"] = "|", ["and"] = "&" }

-- C's / and % round to 0, which is down where nothing is negative.
local function never_negative(n) return n.type == "int" and range.of(n)[1] >= 0 end

local function has_sign(n)
  if not spelling[n.op] then return false end
  return n.op ~= "idiv" and n.op ~= "mod" or never_negative(n[1]) and never_negative(n[2])
end

local written_out = { below = true, affine = true, neg = true, real = true, select = true }
written_out["not"] = true

-- The name of the function behind an operation that C has no sign for; integer forms have their own.
function text.function_of(n)
  if n.op == "table" then return "within" end
  if not n[1] or has_sign(n) or written_out[n.op] then return nil end
  if n.type == "int" then return n.op .. "_int" end
  return n.op == "idiv" and "floor" or n.op -- floor(a / b)
end

-- Whether a target may have a name of its own for n, since n reckons with reals or compares them.
local function of_reals(n) return n.type == "real" or n[1] and n[1].type == "real" end

-- Elements of i32 tables are narrower than the integers they are reckoned with.
local function widened(n, names, result)
  local narrow = n.op == "table" or n.op == "param" and params.slots[n.slot + 1].declared.per
  if not narrow or n.type ~= "int" or names.integer == "int" then return result, 8 end
  return "(" .. names.integer .. ")" .. result, 7
end

-- The text of n; second result: its precedence. `known` holds names of terms that have one.
local function write(n, names, known, least)
  local result, level

  local function below(child, wanted)
    local inner, inner_level = write(child, names, known, 0)
    if n.type == "int" and n.op ~= "select" then
      if child.op == "table" or child.op == "param" then
        inner, inner_level = widened(child, names, inner)
      end
    end
    return inner_level < wanted and "(" .. inner .. ")" or inner
  end

  local called = text.function_of(n)
  if not called and of_reals(n) and names.call and names.call["real_" .. n.op] then
    called = "real_" .. n.op
  end
  if known[n.id] then
    result, level = known[n.id], 8
  elseif n.op == "const" then
    result = constant(n)
    level = n.type ~= "truth" and n.value < 0 and 6 or 8
  elseif n.op == "table" then
    result, level = indexed(n, names, below(n[1], 0)), 8
  elseif not n[1] then
    result, level = leaf(n, names)
  elseif called then
    local calls = named(names, "call", called .. " of variants")
    local arguments = {}
    for i, child in ipairs(n) do arguments[i] = below(child, 0) end
    if n.op == "idiv" and n.type == "real" then
      arguments = { below(n[1], 6) .. " / " .. below(n[2], 7) }
    end
    arguments = table.concat(arguments, ", ")
    result, level = named(calls, called, called .. " of variants") .. "(" .. arguments .. ")", 8
  elseif n.op == "affine" then
    result = string.format("%s(%s, %s, %s)", names.call.fma, below(n[2], 0),
      named(names, "step", "steps from key to key"), below(n[1], 0))
    level = 8
  elseif n.op == "below" then -- of a and b as unsigned numbers
    result = "(unsigned)" .. below(n[1], 7) .. " < (unsigned)" .. below(n[2], 7)
    level = 4
  elseif n.op == "neg" then -- two signs in a row would be a decrement
    result, level = "-" .. below(n[1], n[1].op == "neg" and 8 or 7), 7
  elseif n.op == "not" then
    result, level = "!" .. below(n[1], 8), 7
  elseif n.op == "real" then
    result, level = "(float)" .. below(n[1], 7), 7
  elseif n.op == "select" and n.type == "truth" and names.eager then
    result = below(n[1], 3) .. " & " .. below(n[2], 3) .. " | !" .. below(n[1], 8) .. " & "
        .. below(n[3], 3)
    level = 1
  elseif n.op == "select" then
    result = below(n[1], 1) .. " ? " .. below(n[2], 1) .. " : " .. below(n[3], 1)
    level = 0
  else
    local sign, precedence = spelling[n.op][1], spelling[n.op][2]
    sign = names.eager and eager_spelling[n.op] or sign
    -- && inside || is grouped as compilers advise; the right side of - needs more than its own
    -- level.
    local inner = n.op == "or" and 3 or precedence
    local right = n[2]
    if n.op == "add" and right.op == "const" and right.value < 0 then -- no "+ -64"
      sign, right = "-", expr.const(-right.value)
    end
    result = below(n[1], inner) .. " " .. sign .. " " .. below(right, inner + 1)
    level = precedence
  end
  if level < least then result, level = "(" .. result .. ")", 8 end
  return result, level
end

-- The text of a node as one C expression, and its precedence. least: the precedence it must have.
function text.inline(n, names, least)
  return write(n, names, names.known or {}, least or 0)
end

-- A statement of C, broken at blanks where it is longer than a line should be.
function text.wrap(statement)
  local most, lines, line = 84, {}, ""
  for word in statement:gmatch "%S+" do
    if line ~= "" and #line + 1 + #word > most then
      lines[#lines + 1] = line
      line = "   "
    end
    line = line == "" and word or line .. " " .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- Names, with some of them changed.
function text.names_with(names, changes)
  local changed = {}
  for _, name in ipairs(sorted(names)) do changed[name] = names[name] end
  for _, name in ipairs(sorted(changes)) do changed[name] = changes[name] end
  return changed
end

-- ---- Shared terms --------------------------------------------------------------------------------

local cheap = { const = true, symbol = true, param = true, length = true }

local function worth_a_name(n)
  if cheap[n.op] then return false end
  return not ((n.op == "real" or n.op == "neg") and cheap[n[1].op])
end

-- Neither a sign nor a conversion of a scalar.
local worth_keeping
function worth_keeping(n)
  if n.op == "neg" or n.op == "real" then return worth_keeping(n[1]) end
  return n.op ~= "const" and n.op ~= "symbol" and n.op ~= "length"
      and not (n.op == "param" and not params.slots[n.slot + 1].declared.per)
end

-- The same names, which have C names of more terms, by the id of their node.
function text.knowing(names, more)
  local known = {}
  for _, terms in ipairs { names.known or {}, more } do
    for _, id in ipairs(sorted(terms)) do known[id] = terms[id] end
  end
  return text.names_with(names, { known = known })
end

local function count_uses(roots)
  local uses, order = {}, {}
  local function use(n)
    uses[n.id] = (uses[n.id] or 0) + 1
    if uses[n.id] > 1 then return end
    for _, child in ipairs(n) do use(child) end
    order[#order + 1] = n
  end
  for _, root in ipairs(roots) do use(root) end
  return uses, order
end

local function c_type(n, names)
  return n.type == "real" and "float" or n.type == "int" and names.integer or "int"
end

-- The texts of several nodes that are needed together, in order, and the lines that must stand before
-- them: a named constant for each term that is used more than once.
function text.together(roots, names)
  local uses, order = count_uses(roots)
  local lines, known, numbers = {}, {}, {}
  for _, id in ipairs(names.known and sorted(names.known) or {}) do known[id] = names.known[id] end
  for _, n in ipairs(order) do
    if uses[n.id] > 1 and worth_a_name(n) and not known[n.id] then
      numbers[n.op] = (numbers[n.op] or 0) + 1
      local name = n.op .. "_" .. numbers[n.op]
      lines[#lines + 1] = text.wrap(string.format("const %s %s = %s;", c_type(n, names), name,
        (write(n, names, known, 0))))
      known[n.id] = name
    end
  end
  local texts = {}
  for i, root in ipairs(roots) do texts[i] = write(root, names, known, 0) end
  return texts, table.concat(lines, "\n")
end

-- Terms that are the same for all pairs of a head, taken out of loops: the lines of C that name them,
-- and names that know them. Scalars stay where they are, as cheap as a constant.
function text.uniforms(roots, names)
  local lines, known = {}, {}
  local function take(n)
    if known[n.id] or n.op == "const" then return end
    local scalar = n.op == "symbol" or n.op == "length"
        or n.op == "param" and not params.slots[n.slot + 1].declared.per
    if linear.uniform(n) and n.type ~= "truth" and not scalar and worth_keeping(n) then
      local name = n.op == "param" and params.slots[n.slot + 1].field or "uniform_" .. #lines + 1
      lines[#lines + 1] = text.wrap(string.format("const %s %s = %s;", c_type(n, names), name,
        (write(n, names, known, 0))))
      known[n.id] = name
    else
      for _, child in ipairs(n) do take(child) end
    end
  end
  for _, root in ipairs(roots) do take(root) end
  return table.concat(lines, "\n"), text.names_with(names, { known = known })
end

-- Terms that change along one axis only, "q" or "k", of which a thread has few positions, its rows:
-- index is the C index of the row at hand; nil: there is one at a time. Gives { c_type, name, text } of each, in which `row` is that
-- index, and names that know them.
function text.along(axis, roots, names, index)
  local terms, known, inside = {}, {}, {} -- inside: the names where the terms are formed
  for _, id in ipairs(names.known and sorted(names.known) or {}) do
    known[id], inside[id] = names.known[id], names.known[id]
  end
  local function take(n)
    if known[n.id] or n.op == "const" then return end
    local on = linear.depends(n)
    local other = axis == "q" and on.k or axis == "k" and on.q
    local worth = n.op == "table" or n.op == "param" or n.op == "idiv" or n.op == "mod"
        or n.op == "mul" or n.op == "add" or n.op == "sub" or n.op == "select" or n.op == "min"
        or n.op == "max"
    if on[axis] and not other and not on.s and n.type ~= "truth" and worth then
      local name = string.format("of_%s_%d", axis, #terms + 1)
      terms[#terms + 1] = { c_type(n, names), name, (write(n, names, inside, 0)) }
      known[n.id] = index and name .. "[" .. index .. "]" or name
      inside[n.id] = index and name .. "[row]" or name
    else
      for _, child in ipairs(n) do take(child) end
    end
  end
  for _, root in ipairs(roots) do take(root) end
  return terms, text.names_with(names, { known = known })
end

-- The terms that affine ones begin with, as text.along has terms of one axis.
function text.beginnings(roots, names, index)
  local terms, known = {}, {}
  for _, root in ipairs(roots) do
    expr.each(root, function(n)
      if n.op ~= "affine" or known[n[1].id] then return end
      local name = "begin_" .. #terms + 1
      terms[#terms + 1] = { "float", name, (text.inline(n[1], names)) }
      known[n[1].id] = name .. "[" .. index .. "]"
    end)
  end
  return terms, text.knowing(names, known)
end

-- C that forms such terms for a thread's two rows, as arrays; position: a statement that gives the
-- position of `row`.
function text.of_rows(terms, position)
  if #terms == 0 then return "" end
  local lines = {}
  for i, term in ipairs(terms) do lines[i] = term[1] .. " " .. term[2] .. "[2];" end
  lines[#lines + 1] = "#pragma unroll\nfor (int row = 0; row < 2; ++row) {\n  " .. position
  for _, term in ipairs(terms) do
    local formed = text.wrap(term[2] .. "[row] = " .. term[3] .. ";")
    lines[#lines + 1] = "  " .. formed:gsub("\n", "\n  ")
  end
  return table.concat(lines, "\n") .. "\n}"
end

-- ---- Functions ------------------------------------------------------------------------------------

-- Which functions of `call` some nodes need, by name; of those in place of a sign, comparisons.
function text.functions_of(roots)
  local needed = {}
  for _, root in ipairs(roots) do
    expr.each(root, function(n)
      local called = text.function_of(n)
      if called then needed[called] = true end
      if n.type == "truth" and of_reals(n) then needed["real_" .. n.op] = true end
    end)
  end
  return needed
end

-- Whether lines of C name a variable: a kernel declares no more than it uses.
function text.mentions(lines, name)
  return lines:find("%f[%w_]" .. name .. "%f[^%w_]") ~= nil
end

return text
