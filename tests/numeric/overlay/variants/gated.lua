-- For tests: branches of which only the one taken may be evaluated, and a gradient into a scalar.
return variant {
  doc = "s <- gain * log(1 + |s|) with the sign of s",
  params = { gain = f32 { grad = true, draw = { 0.5, 3 } } },
  score = function(s, at, p)
    return p.gain * select(gt(s, 0), log(1 + s), -log(1 - s))
  end,
}
