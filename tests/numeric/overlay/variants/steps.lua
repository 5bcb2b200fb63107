-- A table by distance in steps, shared by all heads, and derivatives that are 0 or not by branch.
return variant {
  doc = "a bias by the distance in steps, and larger scores halved",
  params = { table = f32 { size = "places", grad = true, draw = { -1, 1 } }, step = i32 { min = 1, draw = { 1, 9 } } },
  score = function(s, at, p)
    local bias = p.table[(at.q - at.k) // p.step + p.places // 2]
    return select(gt(s, 0.5), 0.25 + 0.5 * s, s) + bias
  end,
}
