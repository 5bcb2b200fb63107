-- A mask that no interval describes: every pair is decided by tables.
return variant {
  doc = "keys whose mark shares a bit pattern with the query's",
  params = {
    wanted = i32 { per = "q", draw = { -3, 3 } },
    marks = i32 { per = "k", draw = { -3, 3 } },
    turns = i32 { size = "turn", draw = { 0, 2 } },
  },
  keep = function(at, p)
    local turn = p.turns[(at.q + at.k) % p.turn]
    return select(gt(turn, 0), lt(p.wanted, p.marks), ~eq(p.wanted, p.marks))
  end,
}
