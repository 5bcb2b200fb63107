-- cpu/gradients.lua: gradients of parameters in backward, as C. Nothing is added by two threads: each
-- block of main leaves its part in the workspace, and the last step sums the parts in one order.
--   a scalar, or one number a head   summed in a variable; a part a block, or a head of a block
--   a table with a size              a part is a whole table (a row of it) in the workspace
--   per = "k"                        the keys of a block are its own: a part a key and key/value head
--   per = "q"                        a row's part is shared by all key tiles, which add to it in their
--                                    turns, as to dQ

local score, params, text = require "score", require "params", require "expr_text"
local names, pairwise, linear = require "cpu.names", require "cpu.pairwise", require "linear"

local gradients = {}

local function slot_of(slot) return params.slots[slot + 1] end
local function joined(lines) return table.concat(lines, "\n") end

local by_scores = score.moved_by

-- Fields of the parameters whose parts are cleared by the preprocess.
gradients.cleared = {}

local function kind_of(slot)
  local d = slot_of(slot).declared
  return d.size and "sized" or d.per or "scalar"
end

for _, slot in ipairs(score.graded) do
  if by_scores[slot] and kind_of(slot) == "q" then
    gradients.cleared[#gradients.cleared + 1] = slot_of(slot).field
  end
end

-- Lines for each graded parameter of the scores, by kind: rules.kind(field, declared).
local function lines_by_kind(rules)
  local lines = {}
  for _, slot in ipairs(score.graded) do
    local rule, of = rules[kind_of(slot)], slot_of(slot)
    local line = by_scores[slot] and rule and rule(of.field, of.declared)
    if line then lines[#lines + 1] = line end
  end
  return joined(lines)
end

local block = "(batch * a->heads_kv + head_kv) * key_tiles + key_tile"

-- ---- Main -------------------------------------------------------------------------------------------

local function zeroed(field, length)
  return string.format("for (long long e = 0; e < %s; ++e)\n  %s[e] = 0.0f;", length, field)
end

gradients.by_block = lines_by_kind {
  scalar = function(field) return string.format("double %s = 0.0;", field) end,
  k = function(field) return string.format("float %s[KEYS] = {0.0f};", field) end,
  sized = function(field, d)
    local length = "a->p." .. field .. "_length"
    if d.per then length = "GROUP * " .. length end
    return string.format("float *%s = a->parts.%s +\n    (%s) * %s;\n", field, field, block, length)
      .. zeroed(field, length)
  end,
}
gradients.by_head = lines_by_kind {
  head = function(field) return string.format("double %s = 0.0;", field) end,
}
gradients.by_row = lines_by_kind {
  q = function(field) return string.format("float %s[QUERIES] = {0.0f};", field) end,
}
gradients.add_rows = lines_by_kind {
  q = function(field)
    return string.format("for (int i = 0; i < rows; ++i)\n  a->parts.%s[row + i] += %s[i];", field, field)
  end,
}
gradients.after_head = lines_by_kind {
  head = function(field)
    return text.wrap(string.format("a->parts.%s[(%s) * GROUP + member] = (float)%s;", field, block, field))
  end,
}
gradients.after_block = lines_by_kind {
  scalar = function(field)
    return text.wrap(string.format("a->parts.%s[%s] = (float)%s;", field, block, field))
  end,
  k = function(field)
    return string.format("for (int j = 0; j < KEYS; ++j)\n"
      .. "  a->parts.%s[(%s) * KEYS + j] =\n      %s[j];", field, block, field)
  end,
}

local targets = {
  scalar = function(field) return field end,
  head = function(field) return field end,
  q = function(field) return field .. "[i]" end,
  k = function(field) return field .. "[j]" end,
  sized = function(field, d, g)
    local length = "a->p." .. field .. "_length"
    local index = string.format("within(%s, %s)", text.inline(g.node[1], names), length)
    if d.per then index = string.format("member * %s + %s", length, index) end
    return string.format("%s[%s]", field, index)
  end,
}

-- What one pair adds to each gradient, from `gradient`, that into its final score.
function gradients.statements(at)
  local lines = {}
  for _, g in ipairs(score.gradients) do
    local of = slot_of(g.slot)
    local target = targets[kind_of(g.slot)](of.field, of.declared, g)
    local factor = g.tile and "gradient * " .. g.tile .. "[i * KEYS + j]"
        or g.derivative.value == 1 and "gradient" or "gradient * " .. text.inline(g.derivative, names, 7)
    if g.tile or g.derivative.value ~= 0 then
      lines[#lines + 1] = text.wrap(string.format("%s += %s;", target, factor))
    end
  end
  return pairwise.with_positions(lines, at)
end

-- Whether those need positions: the indices of tables.
gradients.positions = false
for _, g in ipairs(score.gradients) do
  local on = g.node[1] and linear.depends(g.node[1])
  gradients.positions = gradients.positions or on and (on.q or on.k) or false
end

-- ---- The workspace -------------------------------------------------------------------------------------

local function length_of(slot) -- of a table with a size, or of a row of it
  local length = string.format("in->params[%d].length", slot)
  return slot_of(slot).declared.per and "(" .. length .. " / (in->heads_q > 0 ? in->heads_q : 1))" or length
end

local floats = {
  scalar = function() return "blocks" end,
  head = function() return spec.group > 1 and "blocks * " .. spec.group or "blocks" end,
  k = function() return "blocks * KEYS" end,
  q = function() return "rows" end,
  sized = function(slot)
    local group = slot_of(slot).declared.per and spec.group > 1 and spec.group .. " * " or ""
    return "blocks * " .. group .. length_of(slot)
  end,
}

-- "NAME_floats = ...": how many floats the parts of a parameter take.
function gradients.floats(slot)
  local count = by_scores[slot] and floats[kind_of(slot)](slot) or "0"
  return string.format("%s_floats = %s", slot_of(slot).field, count)
end

local terms = {}
for i, slot in ipairs(score.graded) do terms[i] = slot_of(slot).field .. "_floats" end
if score.sink then terms[#terms + 1] = "in->batch * in->heads_q" end
gradients.all_floats = table.concat(terms, " + ")

-- Whether those counts speak of blocks.
gradients.any_blocks = false
for _, slot in ipairs(score.graded) do
  gradients.any_blocks = gradients.any_blocks or gradients.floats(slot):find("blocks", 1, true) ~= nil
end

-- ---- The sums ------------------------------------------------------------------------------------------

-- For a parameter: how many elements its gradient has; of element e, where the first part lies; how
-- many parts there are and how far apart, in two loops.
local sums = {
  scalar = { "1", "0", "blocks", "1", "1", "0" },
  head = { "a->heads_q", "e / GROUP * key_tiles * GROUP + e % GROUP",
    "a->batch", "a->heads_kv * key_tiles * GROUP", "key_tiles", "GROUP" },
  k = { "a->batch * a->seqlen_k",
    "e / a->seqlen_k * a->heads_kv * key_tiles * KEYS + e % a->seqlen_k",
    "a->heads_kv", "key_tiles * KEYS", "1", "0" },
  q = { "a->batch * a->seqlen_q", "e / a->seqlen_q * a->heads_q * a->seqlen_q + e % a->seqlen_q",
    "a->heads_q", "a->seqlen_q", "1", "0" },
  sized = { "LENGTH", "e", "blocks", "LENGTH", "1", "0" },
  sized_head = { "a->heads_q * LENGTH",
    "(e / LENGTH / GROUP * key_tiles * GROUP + e / LENGTH % GROUP) * LENGTH + e % LENGTH",
    "a->batch", "a->heads_kv * key_tiles * GROUP * LENGTH", "key_tiles", "GROUP * LENGTH" },
}

-- { field, elements, first, outer, outer_stride, inner, inner_stride, by_scores } of a slot.
function gradients.sum(slot)
  local of, kind = slot_of(slot), kind_of(slot)
  if kind == "sized" and of.declared.per then kind = "sized_head" end
  local found = { field = of.field, name = of.variant .. "." .. of.name, by_scores = by_scores[slot] }
  for i, key in ipairs { "elements", "first", "outer", "outer_stride", "inner", "inner_stride" } do
    found[key] = sums[kind][i]:gsub("LENGTH", "a->p." .. of.field .. "_length")
  end
  found.of_sink = {}
  for _, g in ipairs(score.sink_gradients) do
    if g.slot == slot then
      local index = of.declared.per and "head" or "0"
      if of.declared.size then
        local length = "a->p." .. of.field .. "_length"
        index = string.format("within(%s, %s)", text.inline(g.node[1], names), length)
        if of.declared.per then index = string.format("head * %s + %s", length, index) end
      end
      local factor = text.inline(g.derivative, names, 7)
      found.of_sink[#found.of_sink + 1] = { index = index, derivative = factor }
      found.needs_ops = found.needs_ops or (index .. factor):find("ops->", 1, true) ~= nil
    end
  end
  return found
end

-- How many elements the gradient of a slot has, as the plan says it.
function gradients.elements(slot)
  local kind = kind_of(slot)
  if kind == "sized" then return string.format("in->params[%d].length", slot) end
  local counts = { scalar = "1", head = "in->heads_q", k = "in->batch * in->seqlen_k",
    q = "in->batch * in->seqlen_q" }
  return counts[kind]
end

return gradients
