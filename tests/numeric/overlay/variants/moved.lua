-- For tests: every word that jumps. It depends on positions alone, where rounding cannot put f32 and
-- f64 on different sides.
return variant {
  doc = "s moved by floor, //, % and / of positions, of reals and of integers",
  params = { steps = i32 { min = 1, draw = { 1, 9 } } },
  score = function(s, at, p)
    local moved = floor(at.q / 4) * 0.01 + (at.k * 0.5) % 3 * 0.1 - (at.k - at.q) * 0.25 // 2 * 0.01
    return s + moved + (at.k - at.q) // p.steps % 3 / 8 + min(at.head, at.batch) * 0.1
  end,
}
