-- sm90/names_bwd.lua: what sm90 backward calls the things that masks and scores speak of.

return require "gpu_names"("args.", {
  q = "q_position", k = "k_position", s = "s[i]", seqlen_k = "args.seqlen_k",
  head = "head", batch = "at_keys.batch",
})
