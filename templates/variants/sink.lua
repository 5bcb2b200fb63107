-- Probability that goes nowhere: each row's sum has one more term, whose value is 0.
return variant {
  doc = "exp(logit[head]) joins each row's sum",
  params = { logit = f32 { per = "head", grad = true, draw = { -2, 2 } } },
  sink = function(at, p) return p.logit end,
}
