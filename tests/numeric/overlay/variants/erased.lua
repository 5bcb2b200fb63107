-- A score of minus infinity is not visible, whoever keeps the pair.
return variant {
  doc = "keys that are multiples of three are erased by their score",
  score = function(s, at) return s + log(select(eq(at.k % 3, 0), 0.0, 1.0)) end,
}
