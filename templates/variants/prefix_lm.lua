-- The prompt is seen whole, what follows it only up to the query.
return variant {
  doc = "keys of the prefix, and keys at or before the query",
  params = { prefix = i32 { min = 0 } },
  keep = function(at, p) return lt(at.k, p.prefix) | le(at.k, at.q) end,
}
