-- Scores stay between -cap and cap; small ones hardly change.
return variant {
  doc = "s <- cap * tanh(s / cap)",
  params = { cap = f32 { above = 0, draw = { 5, 50 } } },
  score = function(s, at, p) return p.cap * tanh(s / p.cap) end,
}
