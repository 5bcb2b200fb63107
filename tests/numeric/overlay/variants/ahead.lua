-- A mask for tests of the seam: a query sees keys up to five places ahead of it.
return variant {
  doc = "keys at most 5 places after the query",
  keep = function(at) return le(at.k - at.q, 5) end,
}
