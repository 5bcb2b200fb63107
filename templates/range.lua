-- range.lua: between which numbers an integer expression stays, whatever is launched.

local expr, params = require "expr", require "params"

local range = {}

local word = 2.0 ^ 31 -- of lengths, positions and i32 values
local most = 2.0 ^ 62 -- integers of a kernel have 64 bits

local symbols = {
  q = { -word, word }, k = { 0, word }, head = { 0, word }, batch = { 0, word },
  seqlen_q = { 1, word }, seqlen_k = { 1, word }, heads_q = { 1, word }, heads_kv = { 1, word },
}

local function of_param(n)
  local d = params.slots[n.slot + 1].declared
  local low = d.min or d.above and math.floor(d.above) + 1 or -word
  local high = d.max or d.below and math.ceil(d.below) - 1 or word
  return { low, high }
end

local function corners(a, b, f)
  local w, x, y, z = f(a[1], b[1]), f(a[1], b[2]), f(a[2], b[1]), f(a[2], b[2])
  return { math.min(w, x, y, z), math.max(w, x, y, z) }
end

local function hull(a, b) return { math.min(a[1], b[1]), math.max(a[2], b[2]) } end

local function remainder(a, b)
  if b[1] > 0 then
    if a[1] >= 0 and a[2] < b[1] then return a end
    return { 0, b[2] - 1 }
  end
  return { b[1] + 1, 0 }
end

local inner = {
  neg = function(a) return { -a[2], -a[1] } end,
  abs = function(a)
    local high = math.max(math.abs(a[1]), math.abs(a[2]))
    return { a[1] > 0 and a[1] or a[2] < 0 and -a[2] or 0, high }
  end,
  add = function(a, b) return { a[1] + b[1], a[2] + b[2] } end,
  sub = function(a, b) return { a[1] - b[2], a[2] - b[1] } end,
  mul = function(a, b) return corners(a, b, function(x, y) return x * y end) end,
  idiv = function(a, b) return corners(a, b, function(x, y) return math.floor(x / y) end) end,
  mod = remainder,
  min = function(a, b) return { math.min(a[1], b[1]), math.min(a[2], b[2]) } end,
  max = function(a, b) return { math.max(a[1], b[1]), math.max(a[2], b[2]) } end,
}

local seen = {}

local function compute(n)
  if n.op == "const" then return { n.value + 0.0, n.value + 0.0 } end
  if n.op == "symbol" then return symbols[n.name] end
  if n.op == "param" then return of_param(n) end
  if n.op == "length" then return { 1, params.slots[n.slot + 1].declared.longest or word } end
  if n.op == "table" then return { -word, word } end
  if n.op == "select" then return hull(range.of(n[2]), range.of(n[3])) end
  return inner[n.op](range.of(n[1]), n[2] and range.of(n[2]))
end

-- { low, high } of an int node, both as floats.
function range.of(n)
  seen[n.id] = seen[n.id] or compute(n)
  return seen[n.id]
end

-- Refuses what a processor could not compute: an integer beyond 64 bits, an integer division by 0.
function range.check(n)
  expr.each(n, function(m)
    if m.type ~= "int" then return end
    if m.op == "idiv" or m.op == "mod" then
      local by = range.of(m[2])
      if by[1] <= 0 and by[2] >= 0 then
        refuse("the divisor of // or % may be 0; give its parameter a min of 1, or write max(1, x)")
      end
    end
    local reach = range.of(m)
    if m.op ~= "const" and (reach[1] < -most or reach[2] > most) then
      refuse("an integer expression may pass 2^62; make its factors real, or set limits")
    end
  end)
end

return range
