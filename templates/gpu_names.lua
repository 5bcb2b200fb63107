-- gpu_names.lua: what GPU kernels call the things that masks and scores speak of; see expr_text.lua.
-- Arithmetic on reals and their comparisons go by name, so that no compiler option has a say in it.

local call = {
  real_add = "add", real_sub = "subtract", real_mul = "multiply", real_div = "quotient",
  real_neg = "negative", fma = "multiply_add",
  real_lt = "is_less", real_le = "is_at_most", real_gt = "is_more", real_ge = "is_at_least",
  real_eq = "is_equal", real_ne = "is_unequal",
  inverse = "inverse_of", and_power = "one_and_power",
  exp = "exponential", log = "logarithm", tanh = "hyperbolic_tangent", sigmoid = "sigmoid",
  floor = "rounded_down", mod = "remainder_of", min = "smaller", max = "larger", abs = "magnitude",
  min_int = "min", max_int = "max", abs_int = "absolute", idiv_int = "floor_div",
  mod_int = "floor_mod", within = "within",
}

-- args: what stands before a member of the argument block; of: the kernel's own names. A row or key
-- past the end, whose pair nobody will see, must not be looked up in a table all the same.
return function(args, of)
  local names = {
    lengths = args, parameters = args .. "p.", integer = "int", far = "FAR", call = call,
    heads_kv = args .. "heads_q / " .. spec.group, head = "head", batch = "batch",
    row = string.format("min(%s - %sseqlen_k + %sseqlen_q, %sseqlen_q - 1)", of.q, args, args, args),
    key = string.format("min(%s, %sseqlen_k - 1)", of.k, args),
  }
  for _, name in ipairs(sorted(of)) do names[name] = of[name] end
  return names
end
