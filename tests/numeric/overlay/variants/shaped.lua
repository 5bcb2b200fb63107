-- For tests: every word for numbers that bends a score.
return variant {
  doc = "s bent by min, max, abs, exp, sigmoid and tanh",
  params = {
    low = f32 { grad = true, draw = { -1, -0.2 } }, high = f32 { grad = true, draw = { 0.2, 1 } },
  },
  score = function(s, at, p)
    local bounded = max(min(s, p.high), p.low)
    return bounded + 0.25 * abs(s) + exp(-s * s) * sigmoid(s) - tanh(bounded) / 2
  end,
}
