-- Positions are on the key axis, so the last query sees the last key.
return variant {
  doc = "keys at or before the query, aligned to the bottom right",
  keep = function(at) return le(at.k, at.q) end,
}
