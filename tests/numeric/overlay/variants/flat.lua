-- For tests: a score that reads nothing of s.
return variant {
  doc = "s <- a number made of the places alone",
  score = function(s, at) return 0.1 * ((at.k * 7 + at.q) % 5) end,
}
