-- Press et al., "Train Short, Test Long", arXiv:2108.12409: a penalty that grows with the distance.
return variant {
  doc = "s <- s - slopes[head] * |distance of query and key|",
  params = { slopes = f32 { per = "head" } },
  score = function(s, at, p) return s - p.slopes * abs(at.q - at.k) end,
}
