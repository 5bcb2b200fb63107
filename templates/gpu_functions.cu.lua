% -- Functions of GPU kernels that only expressions of variants need, each where something calls it.
% local mask, score, text = require "mask", require "score", require "expr_text"
% local roots = score.everything(mask.keep)
% local calls = text.functions_of(roots)
% local has_div, has_neg = false, false
% for _, root in ipairs(roots) do
%   require("expr").each(root, function(n)
%     has_div = has_div or n.op == "div" or n.type == "real" and (n.op == "idiv" or n.op == "mod")
%     has_neg = has_neg or n.type == "real" and n.op == "neg"
%   end)
% end
% if mask.needs_far then
#define FAR (1 << 29) /* past every position */
% end
% if calls.idiv_int or calls.mod_int then

/* The quotient rounded down, also of negative numbers, and what it leaves. b is not 0. */
DEVICE int floor_div(int a, int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
% end
% if calls.mod_int then
DEVICE int floor_mod(int a, int b) { return a - floor_div(a, b) * b; }
% end
% if calls.abs_int then
DEVICE int absolute(int a) { return a < 0 ? -a : a; }
% end
% if calls.within then

/* An index into a table of `length` elements; past an end it is that end. */
DEVICE int within(int index, int length) { return max(0, min(index, length - 1)); }
% end
% if has_neg then

DEVICE float negative(float a) { return __uint_as_float(__float_as_uint(a) ^ 0x80000000u); }
% end
% if calls.abs then

DEVICE float magnitude(float a) {
  float size;
  asm("abs.f32 %0, %1;" : "=f"(size) : "f"(a));
  return size;
}
% end
% if calls.min then

/* a where a <= b, else b, so b when either is NaN. */
DEVICE float smaller(float a, float b) {
  float least;
  asm("{ .reg .pred p; setp.le.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }"
      : "=f"(least) : "f"(a), "f"(b));
  return least;
}
% end
% if calls.max then

/* a where a >= b, else b, so b when either is NaN. */
DEVICE float larger(float a, float b) {
  float most;
  asm("{ .reg .pred p; setp.ge.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }"
      : "=f"(most) : "f"(a), "f"(b));
  return most;
}
% end
% if has_div then

DEVICE float quotient(float a, float b) {
  float quotient;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
  return quotient;
}
% end
% if calls.tanh or calls.sigmoid or calls.inverse then

/* 1 / x, relative error 2^-23, 0 for infinity. */
DEVICE float inverse_of(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}
% end
% if calls.inverse then

/* The same of four, each between 1 and 2^31, by one division. */
DEVICE void invert_four(float (&x)[4]) {
  const float first = multiply(x[0], x[1]), second = multiply(x[2], x[3]);
  const float inverse = inverse_of(multiply(first, second));
  const float of_first = multiply(inverse, second), of_second = multiply(inverse, first);
  const float a = x[0], c = x[2];
  x[0] = multiply(of_first, x[1]);
  x[1] = multiply(of_first, a);
  x[2] = multiply(of_second, x[3]);
  x[3] = multiply(of_second, c);
}
% end
% if calls.and_power then

/* 1 + 2^x, x held at 30: so much more than 1 that nothing is lost. */
DEVICE float one_and_power(float x) {
  float held, power;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(held) : "f"(x), "f"(30.0f));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(held));
  return add(power, 1.0f);
}
% end
% if calls.exp or calls.sigmoid then

/* e^x, relative error (2 + |x|) 2^-23. */
DEVICE float exponential(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(multiply(x, 1.44269504f)));
  return power;
}
% end
% if calls.log then

DEVICE float logarithm(float x) {
  float power_of_2;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(power_of_2) : "f"(x));
  return multiply(power_of_2, 0.693147181f);
}
% end
% if calls.tanh then

/* 1 - 2 / (e^2x + 1), absolute error 2^-22; the hardware's own tanh has 2^-11. */
DEVICE float hyperbolic_tangent(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(multiply(x, 2.88539008f))); /* 2 log2(e) */
  return multiply_add(-2.0f, inverse_of(add(power, 1.0f)), 1.0f);
}
% end
% if calls.sigmoid then

DEVICE float sigmoid(float x) {
  return inverse_of(add(1.0f, exponential(multiply(x, -1.0f))));
}
% end
% if calls.floor or calls.mod then

DEVICE float rounded_down(float x) {
  float whole;
  asm("cvt.rmi.f32.f32 %0, %1;" : "=f"(whole) : "f"(x));
  return whole;
}
% end
% if calls.mod then
DEVICE float remainder_of(float a, float b) {
  return subtract(a, multiply(rounded_down(quotient(a, b)), b));
}
% end
