-- A score for tests of the seam.
return variant {
  doc = "s <- 2 * s",
  score = function(s) return 2 * s end,
}
