-- cpu/pairwise.lua: what happens to one score of a tile, and to one gradient, as C statements.

local mask, score = require "mask", require "score"
local text, names = require "expr_text", require "cpu.names"

local pairwise = {}

-- The gradients of parameters whose derivative is no constant: their factors are kept in tiles from
-- the scores until the gradients of these are known. tile: the C name.
pairwise.factors = {}
for i, g in ipairs(score.gradients) do
  if g.derivative.op ~= "const" then
    g.tile = "factor_" .. i
    pairwise.factors[#pairwise.factors + 1] = g
  end
end

local function uses(lines, word)
  return (" " .. table.concat(lines, "\n") .. " "):find("[^%w_]" .. word .. "[^%w_]") ~= nil
end

-- The lines as one text, the positions that they name declared first.
function pairwise.with_positions(lines, at)
  local declared = {}
  if uses(lines, "q_position") then declared[1] = "q_position = " .. at.q end
  if uses(lines, "k_position") then declared[#declared + 1] = "k_position = " .. at.k end
  if #declared > 0 then
    table.insert(lines, 1, "const long long " .. table.concat(declared, ", ") .. ";")
  end
  return table.concat(lines, "\n")
end

-- Turns a raw score into the final one, and in backward notes its derivatives first. at: q, k, the C
-- text of the positions; masked; unsolved, whether the mask may be idle in this tile.
function pairwise.statements(at)
  local roots, targets, lines = {}, {}, {}
  local function want(root, target)
    roots[#roots + 1], targets[#targets + 1] = root, target
  end
  if spec.pass == "bwd" then
    for _, g in ipairs(pairwise.factors) do want(g.derivative, g.tile .. "[i * KEYS + j]") end
    if not score.unit_derivative then want(score.derivative, "ds_factor[i * KEYS + j]") end
  end
  if not score.identity then want(score.composed, names.s) end
  local texts, shared = text.together(roots, names)
  if shared ~= "" then lines[1] = shared end
  for i, target in ipairs(targets) do
    lines[#lines + 1] = text.wrap(target .. " = " .. texts[i] .. ";")
  end
  if at.masked then
    local idle = at.unsolved and "kept == SOME && " or ""
    lines[#lines + 1] = text.wrap(string.format("if (%s!(%s))", idle, mask.predicate(names)))
    lines[#lines + 1] = "  " .. names.s .. " = MINUS_INFINITY;"
  end
  return pairwise.with_positions(lines, at)
end

return pairwise
