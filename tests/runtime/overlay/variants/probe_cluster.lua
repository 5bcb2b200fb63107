-- Switches on a part of the kernels that tests exercise the runtime with; scores stay as they are.
return variant {
  doc = "clusters of two blocks, programmatic and cooperative launches",
  score = function(s) return s end,
}
