-- A window with holes: of the keys in reach, those a whole number of strides away.
return variant {
  doc = "every stride-th key, up to reach places before and after the query",
  params = { stride = i32 { min = 1, draw = { 1, 5 } }, reach = i32 { min = 0 } },
  keep = function(at, p)
    local d = at.k - at.q
    return ge(d, -p.reach) & le(d, p.reach) & eq(d % p.stride, 0)
  end,
}
