-- A learned bias by distance. The table has 2R + 1 numbers for each head, for -R to R; a distance
-- beyond these counts as the nearest.
return variant {
  doc = "s <- s + table[head][key - query + R], with a gradient into the table",
  params = { table = f32 { per = "head", size = "distances", longest = 2049, grad = true } },
  score = function(s, at, p) return s + p.table[at.k - at.q + p.distances // 2] end,
}
