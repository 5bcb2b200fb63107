% -- Which tiles a mask leaves empty or whole, where its bounds alone do not say.
% local mask, interval = require "mask", require "interval"
% local names = require "cpu.names"
% local lines, may, must = interval.of(mask.keep, names)
% local args = spec.pass == "fwd" and "forward_args" or "backward_args"
% local places = ""
% for _, place in ipairs(interval.places(mask.keep, names)) do
%   places = places .. "long long " .. place .. ", "
% end
/* What the mask keeps of the pairs of a tile, found from the ranges of its positions: SOME where
 * that is not certain. */
enum { NONE, SOME, ALL };

static int tile_kept(const ${args} *a, ${places}long long q_low,
    long long q_high, long long k_low, long long k_high) {
  ${lines}
  return !${may} ? NONE : ${must} ? ALL : SOME;
}
