-- Training of a speculative drafter. The keys are a prefix of cached tokens, then blocks of drafted
-- ones; the queries are the drafted rows. Block b was drafted after anchor[b] tokens of the prefix.
return variant {
  doc = "the prefix below the block's anchor (window >= 0: the last of it only), and the own block",
  params = {
    block = i32 { min = 1, draw = { 1, 40 } }, window = i32 { min = -1 },
    anchor = i32 { size = "blocks" },
  },
  keep = function(at, p)
    local prefix = at.seqlen_k - at.seqlen_q
    local own = (at.q - prefix) // p.block
    local anchor = p.anchor[own]
    local seen = lt(at.k, min(anchor, prefix)) & (lt(p.window, 0) | ge(at.k, anchor - p.window))
    return seen | eq((at.k - prefix) // p.block, own)
  end,
}
