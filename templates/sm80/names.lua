-- sm80/names.lua: what sm80 kernels call the things that masks and scores speak of, and what must be
-- declared for it where a head of batch x heads_q is at hand.

local gpu_names = require "gpu_names"

return {
  of = gpu_names("a.", {
    q = "q_position", k = "k_position", s = "s[i][j][e]", seqlen_k = "a.seqlen_k",
    head = "query_head", heads_q = "(int)a.heads_q.number", heads_kv = "(int)a.heads_kv.number",
  }),
  declare = {
    { "batch", "const int batch = divide(head, a.heads_q);" },
    { "query_head", "const int query_head = head - batch * a.heads_q.number;" },
  },
}
