-- Sequences packed into one: a query sees the keys of its own document.
return variant {
  doc = "keys whose document has the query's id",
  params = { q_ids = i32 { per = "q", draw = { 0, 3 } }, k_ids = i32 { per = "k", draw = { 0, 3 } } },
  keep = function(at, p) return eq(p.q_ids, p.k_ids) end,
}
