-- For tests: every word for truths, and masks made of tables.
return variant {
  doc = "a mask of blocks, tables of integers, ~, &, |, select, ne and abs",
  params = {
    reach = i32 { size = "rows", draw = { 0, 40 } }, kind = i32 { per = "head", draw = { 0, 2 } },
    step = i32 { min = 1, draw = { 1, 20 } }, sharp = f32 { draw = { 1, 30 } },
  },
  keep = function(at, p)
    local near = le(abs(at.k - at.q), p.reach[at.q // p.step])
    local block = eq(at.k // p.step, max(at.q, 0) // p.step) & ne(at.k % 3, 1)
    local even = select(gt(p.kind, 0), ~(near | lt(at.k, 4)), near | block)
    return select(eq(p.kind, 2), even & lt(at.k * 0.5, p.sharp), even | ~ge(at.k, min(at.q, 6)))
  end,
}
