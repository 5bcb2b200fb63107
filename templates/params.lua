-- params.lua: the parameters of a spec's variants, in slot order: variants as named, the parameters of
-- one by name. Kernels and plans hold them in a struct, one field each.

local variant = require "variant"

local params = { slots = {}, of = {} } -- of: what a variant's functions get as p
local most = 32                        -- PARAMS_MAX of gen/params.h

local fields = {}

local function add_slot(variant_name, name, declared)
  local field = variant_name .. "_" .. name
  if fields[field] then
    error(string.format("parameters: %s.%s and %s are both '%s' in a kernel; rename one",
      variant_name, name, fields[field], field), 0)
  end
  fields[field] = variant_name .. "." .. name
  params.slots[#params.slots + 1] = {
    variant = variant_name, name = name, field = field, declared = declared,
  }
end

for _, variant_name in ipairs(spec.variants) do
  local declared = load_variant(variant_name).params
  params.of[variant_name] = variant.parameters(declared, #params.slots)
  for _, name in ipairs(sorted(declared)) do add_slot(variant_name, name, declared[name]) end
end
if #params.slots > most then
  error(string.format("parameters: %d; at most %d in one kernel", #params.slots, most), 0)
end

local function word(value)
  if value == nil or value == false then return "-" end
  return type(value) == "string" and value or string.format("%.17g", value)
end

-- A line for each slot, as gen/params.c reads it.
function params.text()
  local lines = {}
  for i, slot in ipairs(params.slots) do
    local d = slot.declared
    lines[i] = table.concat({ slot.variant, slot.name, word(d.size), d.kind, word(d.per),
      d.grad and "grad" or "-", word(d.min), word(d.max), word(d.above), word(d.below),
      word(d.longest), word(d.draw_low), word(d.draw_high), word(d.line), ";" }, " ")
  end
  return table.concat(lines, "\n")
end

return params
