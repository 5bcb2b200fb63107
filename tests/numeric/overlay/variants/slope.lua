-- A score for tests of the seam: a linear bias by the key's position.
return variant {
  doc = "s <- s + k / 2",
  score = function(s, at) return s + 0.5 * at.k end,
}
