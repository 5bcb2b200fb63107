-- The kernels that tests exercise the runtime with have no tiles: what is chosen is which parts are on.
local probe = {}
for _, name in ipairs(spec.variants) do probe[name:gsub("^probe_", "")] = true end

-- What a spec does not switch on is nil otherwise, and an unknown name an error.
for _, name in ipairs { "spill", "error", "missing", "grid", "shared", "cluster", "map",
  "steps" } do
  probe[name] = probe[name] or false
end

return { probe = probe, facts = {} }
