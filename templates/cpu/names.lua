-- cpu/names.lua: what cpu kernels call the things that masks and scores speak of; see expr_text.lua.

return {
  q = "q_position", k = "k_position", s = "s[i * KEYS + j]", row = "row_first + i",
  head = "head", batch = "batch",
  lengths = "a->", heads_kv = "a->heads_q / GROUP", parameters = "a->p.",
  integer = "long long", far = "FAR",
  call = {
    exp = "ops->exp", log = "ops->log", tanh = "ops->tanh", sigmoid = "ops->sigmoid",
    floor = "ops->floor", mod = "ops->mod", min = "smaller", max = "larger", abs = "magnitude",
    min_int = "min", max_int = "max", abs_int = "absolute", idiv_int = "floor_div",
    mod_int = "floor_mod", within = "within",
  },
}
