% -- Functions that only expressions of variants need, each where something calls it.
% local mask, score = require "mask", require "score"
% local interval, names, text = require "interval", require "cpu.names", require "expr_text"
% local calls = text.functions_of(score.everything(mask.keep))
% local of_tile = mask.keep and (interval.of(mask.keep, names)) or ""
% local function needed(name) return calls[name] or of_tile:find(names.call[name] .. "(", 1, true) end
% if needed "idiv_int" or needed "mod_int" then

/* The quotient rounded down, also of negative numbers, and what it leaves. b is not 0. */
static inline long long floor_div(long long a, long long b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
% end
% if needed "mod_int" then
static inline long long floor_mod(long long a, long long b) { return a - floor_div(a, b) * b; }
% end
% if needed "abs_int" then
static inline long long absolute(long long a) { return a < 0 ? -a : a; }
% end
% if needed "abs" then
static inline float magnitude(float a) { return a >= 0 ? a : -a; }
% end
% if needed "min" then
static inline float smaller(float a, float b) { return a <= b ? a : b; }
% end
% if needed "max" then
static inline float larger(float a, float b) { return a >= b ? a : b; }
% end
% if needed "within" then

/* An index into a table of `length` elements; past an end it is that end. */
static inline long long within(long long index, long long length) {
  return max(0, min(index, length - 1));
}
% end
% if of_tile:find("range_of(", 1, true) then

/* The least and the largest of some values; of very many, what no value passes. */
static void range_of(const int *values, long long count, long long *low, long long *high) {
  const long long farthest = 1LL << 31, many = 4096;
  *low = count > many ? -farthest : farthest;
  *high = -*low;
  for (long long i = 0; i < count && count <= many; ++i) {
    *low = min(*low, values[i]);
    *high = max(*high, values[i]);
  }
}
% end
