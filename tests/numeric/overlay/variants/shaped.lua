-- For tests: every word for numbers. What jumps depends on positions alone, where rounding cannot
-- put f32 and f64 on different sides.
return variant {
  doc = "s bent by min, max, abs, exp, sigmoid, tanh, and moved by floor, //, % and / of positions",
  params = {
    low = f32 { grad = true, draw = { -1, -0.2 } }, high = f32 { grad = true, draw = { 0.2, 1 } },
    steps = i32 { min = 1, draw = { 1, 9 } },
  },
  score = function(s, at, p)
    local bounded = max(min(s, p.high), p.low)
    local bent = bounded + 0.25 * abs(s) + exp(-s * s) * sigmoid(s) - tanh(bounded) / 2
    local moved = floor(at.q / 4) * 0.01 + (at.k * 0.5) % 3 * 0.1 - (at.k - at.q) * 0.25 // 2 * 0.01
    return bent + moved + (at.k - at.q) // p.steps % 3 / 8 + min(at.head, at.batch) * 0.1
  end,
}
