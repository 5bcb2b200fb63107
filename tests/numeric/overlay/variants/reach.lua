-- A mask with parameters: a band that one head sets wider than another.
return variant {
  doc = "keys within a reach of the query, of each head its own",
  params = { reach = i32 { per = "head", draw = { 0, 90 } }, least = i32 { min = 0, draw = { 0, 20 } } },
  keep = function(at, p) return le(abs(at.k - at.q), max(p.reach, p.least)) end,
}
