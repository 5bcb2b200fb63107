-- score.lua: half of the seam between kernels and variants: what happens to a score, and what joins a
-- row's sum. Kernels ask for text; a spec whose variants leave scores alone gets none.

local expr, linear, simplify = require "expr", require "linear", require "simplify"
local params, variant = require "params", require "variant"
local derivative, text, postfix = require "derivative", require "expr_text", require "postfix"

-- ---- What the variants say ------------------------------------------------------------------------

local s = expr.symbol "s"

-- The score of all variants in the order named, over the symbol s; nil when none changes it.
local function compose()
  local composed
  for _, name in ipairs(spec.variants) do
    local score = load_variant(name).score
    if score then
      local step = score(s, variant.at, params.of[name])
      composed = composed and expr.substitute(step, { [s.id] = composed }) or step
    end
  end
  return composed
end

-- The logit that joins each row's sum, of the one variant that has one.
local function find_sink()
  local sink, of
  for _, name in ipairs(spec.variants) do
    local found = load_variant(name).sink
    if found and sink then
      error(string.format("variants: %s and %s both have a sink; a row's sum takes one", of, name), 0)
    elseif found then
      sink, of = found(variant.at, params.of[name]), name
    end
  end
  return sink
end

local written, sink_written = compose(), find_sink()
local composed = written and simplify.graph(written)
local sink = sink_written and simplify.graph(sink_written)
local by_s = composed and derivative(composed, s)

-- Where a division takes long: by what is the same for all pairs, it is a product with a reciprocal
-- that is formed once.
local function with_reciprocals(n)
  local by = {}
  expr.each(n, function(m)
    if m.op == "div" and linear.uniform(m[2]) and not linear.uniform(m[1]) then
      by[m.id] = expr.make("mul", "real", expr.substitute(m[1], by),
        simplify.make("div", "real", expr.const(1.0), m[2]))
    end
  end)
  return expr.substitute(n, by)
end

-- Beside what jumps, only the nearest number will do.
local jumps = composed and expr.any(composed, function(n)
  return n.type == "real" and (n.op == "floor" or n.op == "idiv" or n.op == "mod")
end)
if composed and spec.target ~= "cpu" and not jumps then
  composed, by_s = with_reciprocals(composed), with_reciprocals(by_s)
end

-- What sm90 forward reckons, with a factor that it leaves to the softmax.
local plain, factor = composed, nil
if composed and spec.target == "sm90" and spec.pass == "fwd" then
  if jumps then
    composed = expr.substitute(composed, { [s.id] = expr.make("mul", "real", s, expr.symbol "scale") })
  else
    composed, factor = require("gpu_forms").of(composed, require("mask").keep)
  end
end

local varied = false
for _, name in ipairs(spec.variants) do varied = varied or name ~= "causal" end

local score = {
  -- Whether the spec has other variants than causal. Theirs are kernels of one entry, where a target
  -- has two for speed: half as long to compile at their first call.
  varied = varied,
  identity = composed == nil,
  -- Whether pairs look in a table, each at a place of its own.
  tables = composed ~= nil and expr.any(composed, function(n) return n.op == "table" end),
  -- Whether text and derivative_text name the positions.
  needs_positions = composed ~= nil
      and (linear.depends(composed).q or linear.depends(composed).k or false),
  -- Whether d(score)/ds is 1 for every pair, so that backward needs no factor.
  unit_derivative = composed == nil or by_s.op == "const" and by_s.value == 1,
  composed = composed, derivative = by_s, sink = sink,
  factor = factor, -- nil for 1
}

-- ---- Gradients of parameters ------------------------------------------------------------------------

-- The leaves and elements of n that belong to parameters with a gradient, each with n's derivative:
-- { slot, node, derivative }, in slot order.
local function gradients_of(n)
  local found = {}
  if not n then return found end
  expr.each(n, function(m)
    local slot = (m.op == "param" or m.op == "table") and params.slots[m.slot + 1]
    if slot and slot.declared.grad then
      found[#found + 1] = { slot = m.slot, node = m, derivative = derivative(n, m) }
    end
  end)
  table.sort(found, function(a, b)
    if a.slot ~= b.slot then return a.slot < b.slot end
    return a.node.id < b.node.id
  end)
  return found
end

score.gradients, score.sink_gradients = gradients_of(plain), gradients_of(sink)

-- How many of the former are no constants.
score.factors = 0
for _, g in ipairs(score.gradients) do
  if g.derivative.op ~= "const" then score.factors = score.factors + 1 end
end

-- Slots that a backward kernel writes gradients of: all that are declared so.
score.graded = {}
for i, slot in ipairs(params.slots) do
  if slot.declared.grad then score.graded[#score.graded + 1] = i - 1 end
end

-- Whether the scores have a part in the gradient of a slot; the others' come from the sink, or are 0.
score.moved_by = {}
for _, g in ipairs(score.gradients) do score.moved_by[g.slot] = true end

-- All that a kernel of this pass may write down, `also` too unless it is nil.
function score.everything(also)
  local all = { also }
  local function take(n) all[#all + 1] = n end
  if composed then take(composed) end
  if sink then take(sink) end
  if spec.pass ~= "bwd" then return all end
  if composed then take(by_s) end
  for _, list in ipairs { score.gradients, score.sink_gradients } do
    for _, g in ipairs(list) do
      take(g.node)
      take(g.derivative)
    end
  end
  return all
end

-- ---- Text -----------------------------------------------------------------------------------------

-- The new score as a C expression; names: see expr_text.lua.
function score.text(names)
  return (text.inline(composed, names))
end

-- Terms of score and mask that loops need not form again: lines of C, and names that know them.
function score.uniforms(names, keep)
  local roots = { composed, spec.pass == "bwd" and by_s or nil }
  roots[#roots + 1] = keep
  return text.uniforms(roots, names)
end

-- Makes the new score of the old one, names.s, in place; and before that a constant of its derivative,
-- where that has a name.
function score.lines(names, derivative_name)
  local roots, targets = {}, {}
  if derivative_name then roots[1], targets[1] = by_s, "const float " .. derivative_name end
  roots[#roots + 1], targets[#targets + 1] = composed, names.s
  local texts, shared = text.together(roots, names)
  local lines = { shared ~= "" and shared or nil }
  for i, target in ipairs(targets) do
    lines[#lines + 1] = text.wrap(target .. " = " .. texts[i] .. ";")
  end
  return table.concat(lines, "\n")
end

-- Reciprocals that the new scores of four pairs have together: { name, text } of each, the array that
-- they stand in and what element e of it is the reciprocal of; and names that know them.
function score.inverses(names)
  local steps = {}
  expr.each(composed, function(n)
    if n.op ~= "inverse" then return end
    local name = "inverse_" .. #steps + 1
    steps[#steps + 1] = { name, (text.inline(n[1], names)) }
    names = text.knowing(names, { [n.id] = name .. "[e]" })
  end)
  return steps, names
end

-- Whether score or mask (keep, or nil) speak of the query head or the batch entry.
function score.speaks_of_heads(keep)
  local function speaks(n)
    return expr.any(n, function(m)
      return m.op == "symbol" and (m.name == "head" or m.name == "batch")
          or (m.op == "param" or m.op == "table") and params.slots[m.slot + 1].declared.per ~= nil
    end)
  end
  return composed ~= nil and speaks(composed) or keep ~= nil and speaks(keep)
end

-- The lines of declare, { name, C statement } each, whose names the texts use.
function score.declared(declare, ...)
  local said, lines = table.concat({ ... }, " "), {}
  for i = #declare, 1, -1 do
    if text.mentions(said, declare[i][1]) then
      table.insert(lines, 1, declare[i][2])
      said = said .. " " .. declare[i][2]
    end
  end
  return table.concat(lines, "\n")
end

-- d(new score) / d(old score) as a C expression over the old score.
function score.derivative_text(names)
  return (text.inline(by_s, names))
end

-- For an oracle.
function score.postfix()
  return written and postfix(written) or ""
end

function score.sink_postfix()
  return sink_written and postfix(sink_written) or ""
end

return score
