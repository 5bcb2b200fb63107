-- linear.lua: integer expressions as sums, and which terms are the same for all pairs of a head.

local expr, params = require "expr", require "params"

local linear = {}

-- ---- What a node depends on ----------------------------------------------------------------------

-- What n depends on of the positions, the score and the query head: { q = , k = , s = , head = },
-- each true or absent.
local seen = {}
function linear.depends(n)
  if seen[n.id] then return seen[n.id] end
  local on = {}
  if n.op == "symbol" then on[n.name] = true end
  if n.op == "param" or n.op == "table" then
    local per = params.slots[n.slot + 1].declared.per
    if per then on[per] = true end
  end
  for _, child in ipairs(n) do
    local below = linear.depends(child)
    on.q, on.k, on.s = on.q or below.q, on.k or below.k, on.s or below.s
    on.head = on.head or below.head
  end
  seen[n.id] = on
  return on
end

-- Whether n is the same for all pairs of one head and batch entry.
function linear.uniform(n)
  local on = linear.depends(n)
  return not (on.q or on.k or on.s)
end

-- ---- Sums ---------------------------------------------------------------------------------------

-- Further out than any position: what has larger constants is no sum that could be solved safely.
local farthest = 1 << 40

local function limited(sum)
  if not sum or math.abs(sum.c) > farthest then return nil end
  for _, atom in ipairs(sum.atoms) do
    if math.abs(atom.by) > farthest >> 8 then return nil end
  end
  return sum
end

local function scaled(a, by)
  if not a or math.abs(a.c * 1.0 * by) > farthest then return nil end
  local sum = { q = a.q * by, k = a.k * by, c = a.c * by, atoms = {} }
  for i, atom in ipairs(a.atoms) do sum.atoms[i] = { node = atom.node, by = atom.by * by } end
  return limited(sum)
end

local function added(a, b)
  if not a or not b then return nil end
  local sum, at = { q = a.q + b.q, k = a.k + b.k, c = a.c + b.c, atoms = {} }, {}
  for _, side in ipairs { a, b } do
    for _, atom in ipairs(side.atoms) do
      local id = atom.node.id
      if not at[id] then
        at[id] = { node = atom.node, by = 0 }
        sum.atoms[#sum.atoms + 1] = at[id]
      end
      at[id].by = at[id].by + atom.by
    end
  end
  for i = #sum.atoms, 1, -1 do
    if sum.atoms[i].by == 0 then table.remove(sum.atoms, i) end
  end
  return limited(sum)
end

local function atom(n)
  return n.type == "int" and linear.uniform(n)
      and { q = 0, k = 0, c = 0, atoms = { { node = n, by = 1 } } } or nil
end

-- n as q * at.q + k * at.k + c + the sum of by * node over atoms, which are uniform, with whole
-- coefficients; nil when it is not of that form.
function linear.sum(n)
  if n.op == "const" then
    return n.type == "int" and limited { q = 0, k = 0, c = n.value, atoms = {} } or nil
  elseif n.op == "symbol" and (n.name == "q" or n.name == "k") then
    return { q = n.name == "q" and 1 or 0, k = n.name == "k" and 1 or 0, c = 0, atoms = {} }
  elseif n.op == "neg" then
    return scaled(linear.sum(n[1]), -1)
  elseif n.op == "add" then
    return added(linear.sum(n[1]), linear.sum(n[2]))
  elseif n.op == "sub" then
    return added(linear.sum(n[1]), scaled(linear.sum(n[2]), -1))
  elseif n.op == "mul" and n[1].op == "const" and n[1].type == "int" and n[2].op ~= "const" then
    return scaled(linear.sum(n[2]), n[1].value)
  elseif n.op == "mul" and n[2].op == "const" and n[2].type == "int" and n[1].op ~= "const" then
    return scaled(linear.sum(n[1]), n[2].value)
  end
  return atom(n)
end

-- a - b, of the two sides of a comparison.
function linear.difference(a, b)
  return added(linear.sum(a), scaled(linear.sum(b), -1))
end

-- sign * sum + extra, for a sign of 1 or -1.
function linear.shifted(sum, sign, extra)
  local moved = scaled(sum, sign)
  moved.c = moved.c + extra
  return moved
end

return linear
