-- softcap by nothing but an exponential and a division, which every target rounds to f32 and no worse.
return variant {
  doc = "s <- cap * tanh(s / cap), without tanh",
  params = { cap = f32 { above = 0, draw = { 5, 50 } } },
  score = function(s, at, p) return p.cap * (1 - 2 / (exp(2 * s / p.cap) + 1)) end,
}
