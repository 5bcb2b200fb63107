-- A mask that depends on the head, the batch entry and the lengths.
return variant {
  doc = "odd heads see the keys before the middle, even heads those from there on",
  keep = function(at)
    local middle = at.seqlen_k // 2 + at.batch
    return eq(at.head % 2, 1) & lt(at.k, middle) | eq(at.head % 2, 0) & ge(at.k, middle)
  end,
}
