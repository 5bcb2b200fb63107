-- A mask for tests of the seam: with causal, a window of 65 keys that ends at the query.
return variant {
  doc = "keys at most 64 places before the query",
  keep = function(at) return ge(at.k - at.q, -64) end,
}
