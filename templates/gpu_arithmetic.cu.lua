% -- Arithmetic on floats, one instruction each, for every GPU target: what the pass calls.
% local forward, kernel = spec.pass == "fwd", spec.pass ~= "pre"
% local score = require "score"
% local compared = {}
% if kernel then
%   compared = require("expr_text").functions_of(score.everything(require("mask").keep))
% end
% local adds = not score.identity or spec.pass == "bwd" and #score.graded > 0
% if spec.target == "sm90" or forward or tiles.preprocess_lanes > 1 or adds then
DEVICE float add(float a, float b) {
  float sum;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}

% end
DEVICE float subtract(float a, float b) {
  float difference;
  asm("sub.rn.f32 %0, %1, %2;" : "=f"(difference) : "f"(a), "f"(b));
  return difference;
}
% if kernel then

DEVICE float multiply(float a, float b) {
  float product;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}
% end

/* a * b + c, rounded once. */
DEVICE float multiply_add(float a, float b, float c) {
  float sum;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
  return sum;
}
% if forward then

DEVICE float maximum(float a, float b) {
  float larger;
  asm("max.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
% end
% if kernel then

/* 2^x: 0 for -inf, relative error 2^-22. */
DEVICE float exp2_approx(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
% end
% if forward then

/* log2(x): -inf for 0. */
DEVICE float log2_approx(float x) {
  float logarithm;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(x));
  return logarithm;
}

DEVICE float reciprocal(float x) {
  float quotient;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(x));
  return quotient;
}
% end
% if kernel then

/* Two values rounded to ${spec.dtype}, the first in the low half. */
DEVICE unsigned pack(float low, float high) {
  unsigned both;
  asm("cvt.rn.${spec.dtype}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
% end
% -- Comparisons of floats: nothing is flushed to 0 before, and with NaN only "unequal" holds.
% local comparisons = {
%   { "lt", "is_less", "lt" }, { "le", "is_at_most", "le" }, { "gt", "is_more", "gt" },
%   { "ge", "is_at_least", "ge" }, { "eq", "is_equal", "eq" }, { "ne", "is_unequal", "neu" },
% }
% for _, comparison in ipairs(comparisons) do
%   local op, name, instruction = table.unpack(comparison)
%   if compared["real_" .. op] then

DEVICE int ${name}(float a, float b) {
  int holds;
  asm("{ .reg .pred p; setp.${instruction}.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }"
      : "=r"(holds) : "f"(a), "f"(b));
  return holds;
}
%   end
% end
