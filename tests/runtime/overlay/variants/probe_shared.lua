-- Switches on a part of the kernels that tests exercise the runtime with; scores stay as they are.
return variant {
  doc = "dynamic shared memory of 1 KiB for each batch entry",
  score = function(s) return s end,
}
