-- For tests: every kind of table, each with a gradient, and one table that is read twice.
return variant {
  doc = "s <- s * by_head + by_q * by_k + shared[k] + shared[q + head] + own[head][q // 8 - k]",
  params = {
    by_head = f32 { per = "head", grad = true }, by_q = f32 { per = "q", grad = true },
    by_k = f32 { per = "k", grad = true }, shared = f32 { size = "buckets", grad = true },
    own = f32 { per = "head", size = "places", grad = true },
  },
  score = function(s, at, p)
    return s * p.by_head + p.by_q * p.by_k + p.shared[at.k % p.buckets]
      + p.shared[(at.q + at.head) % p.buckets] + p.own[at.q // 8 - at.k]
  end,
}
