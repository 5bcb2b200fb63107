-- What changes nothing: its gradient is a sum that cancels to 0.
return variant {
  doc = "s <- s + level, which no output but LSE shows",
  params = { level = f32 { grad = true } },
  score = function(s, at, p) return s + p.level end,
}
