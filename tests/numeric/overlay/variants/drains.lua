-- For tests: a sink of a scalar and a table with a size.
return variant {
  doc = "exp(base * depth[head % kinds] - seqlen_k / 100) joins each row's sum",
  params = {
    base = f32 { grad = true, draw = { -1, 2 } },
    depth = f32 { size = "kinds", grad = true, draw = { -1, 2 } },
  },
  sink = function(at, p) return p.base * p.depth[at.head % p.kinds] - at.seqlen_k / 100 end,
}
