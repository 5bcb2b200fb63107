-- Distances are on the key axis, as with causal: a window that ends at the query is { left, 0 }.
return variant {
  doc = "keys from left before the query to right after it; -1: no limit on that side",
  params = { left = i32 { min = -1 }, right = i32 { min = -1 } },
  keep = function(at, p)
    local d = at.k - at.q
    return (lt(p.left, 0) | ge(d, -p.left)) & (lt(p.right, 0) | le(d, p.right))
  end,
}
