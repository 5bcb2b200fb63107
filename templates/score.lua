-- score.lua: half of the seam between kernels and variants: what happens to a score.
-- Kernels ask for text; a spec whose variants leave scores alone gets none.

local expr = require "expr"

-- The score of all variants in the order named, over the leaf s; nil when none changes it.
local function compose()
  local composed
  for _, name in ipairs(spec.variants) do
    local variant = load_variant(name)
    if variant.score then
      local step = expr.check(variant.score(expr.s, expr.at), "number",
        "variants/" .. name .. ".lua: score")
      composed = composed and expr.substitute_s(step, composed) or step
    end
  end
  return composed and expr.simplify(composed)
end

local composed = compose()
local derivative = composed and expr.derivative(composed)

local score = {
  identity = composed == nil,
  -- Whether text and derivative_text name the positions.
  needs_positions = composed ~= nil
      and (expr.depends(composed, "q") or expr.depends(composed, "k")),
  -- Whether d(score)/ds is 1 for every pair, so that backward needs no factor.
  unit_derivative = composed == nil or derivative.op == "const" and derivative.value == 1,
}

-- The new score as a C expression. names: C names of "s", "q", "k".
function score.text(names)
  return (expr.text(composed, names, true))
end

-- d(new score) / d(old score) as a C expression over the old score.
function score.derivative_text(names)
  return (expr.text(derivative, names, true))
end

function score.postfix()
  return composed and expr.postfix(composed) or ""
end

return score
