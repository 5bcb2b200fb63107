% -- Which tiles a mask leaves empty or whole, found before the kernel that walks them.
% local mask, interval, linear = require "mask", require "interval", require "linear"
% local names = require "gpu_names"("args.", { q = "", k = "", s = "" })
% names.integer = "long long"
% local lines, may, must = interval.of(mask.keep, names)
% local forward = spec.pass == "fwd"
% local walked, fixed = forward and "k" or "q", forward and "q" or "k"
% local by_head = linear.depends(mask.keep).head
% local function called(name) return lines:find(name .. "(", 1, true) end

/* ---- The search ------------------------------------------------------------------------------ */

/* In 64 bits, which no sum of positions and parameters leaves. */
namespace wide {
% if called "min" or called "within" then
DEVICE long long min(long long a, long long b) { return a < b ? a : b; }
% end
% if called "max" or called "within" then
DEVICE long long max(long long a, long long b) { return a > b ? a : b; }
% end
% if called "floor_div" or called "floor_mod" then
DEVICE long long floor_div(long long a, long long b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
% end
% if called "floor_mod" then
DEVICE long long floor_mod(long long a, long long b) { return a - floor_div(a, b) * b; }
% end
% if called "absolute" then
DEVICE long long absolute(long long a) { return a < 0 ? -a : a; }
% end
% if called "within" then
DEVICE long long within(long long index, long long length) {
  return max(0, min(index, length - 1));
}
% end
% if called "range_of" then

/* The least and the largest of some values; of very many, what no value passes. */
struct value_range {
  int least, most;
};
DEVICE void take(value_range &range, int value) {
  range.least = value < range.least ? value : range.least;
  range.most = value > range.most ? value : range.most;
}
DEVICE void range_of(const int *values, long long count, long long *low, long long *high) {
  const long long farthest = 1LL << 31, many = 4096;
  value_range range = {0x7fffffff, -0x7fffffff - 1};
  long long i = 0;
  if (count <= many) { /* 16 bytes at a time: each thread's values are elsewhere */
    while (i < count && (unsigned long long)(values + i) % 16 != 0)
      take(range, values[i++]);
#pragma unroll 4
    for (; i + 4 <= count; i += 4) {
      const int4 four = *(const int4 *)(values + i);
      take(range, four.x);
      take(range, four.y);
      take(range, four.z);
      take(range, four.w);
    }
    while (i < count)
      take(range, values[i++]);
  }
  *low = count > many ? -farthest : count > 0 ? range.least : farthest;
  *high = count > many ? farthest : count > 0 ? range.most : -farthest;
}
% end

enum { NONE, SOME, ALL };

/* What the mask keeps of the pairs of a tile, found from the ranges of its positions: SOME where
 * that is not certain. */
DEVICE int tile_kept(const search_args &args, int batch, int head, long long q_low,
                     long long q_high, long long k_low, long long k_high) {
  ${lines}
  return !${may} ? NONE : ${must} ? ALL : SOME;
}
} // namespace wide

/* Of each tile of ${forward and "queries" or "keys"}: the ${forward and "key" or "query"} tiles to walk, from the first to the last that is not empty, and
 * the longest runs of full ones and of empty ones between. Grid: tiles x ${by_head and "heads_q x " or ""}batch, all in x. */
extern "C" __global__ void __launch_bounds__(128)
${spec.name}_search(const __grid_constant__ search_args args) {
  enum { MOST = 16384 }; /* tiles; of more than these all are walked with the mask */
  __shared__ __align__(8) unsigned char kept[MOST];
  const int tiles = (args.seqlen_${walked} + args.walked - 1) / args.walked;
  const int fixed_tiles = (args.seqlen_${fixed} + args.fixed - 1) / args.fixed;
  const int group = blockIdx.x / fixed_tiles;
% if by_head then
  const int batch = group / args.heads_q, head = group - batch * args.heads_q;
% else
  const int batch = group, head = 0;
% end
  const int shift = args.seqlen_k - args.seqlen_q;
  const int fixed_first = (blockIdx.x - group * fixed_tiles) * args.fixed;
  const int fixed_last = min(fixed_first + args.fixed, args.seqlen_${fixed}) - 1;
  tile_bounds &found = args.searched[blockIdx.x];
  if (tiles > MOST) {
    if (threadIdx.x == 0)
      found = {0, tiles, tiles, tiles, 0, 0};
    return;
  }
  for (int tile = threadIdx.x; tile < tiles; tile += 128) {
    const int first = tile * args.walked;
    const int last = min(first + args.walked, args.seqlen_${walked}) - 1;
% if forward then
    int all = wide::tile_kept(args, batch, head, fixed_first + shift, fixed_last + shift, first,
                              last);
%   if mask.open_end then
    if (all == wide::ALL && first + args.walked > args.seqlen_k)
      all = wide::SOME; /* keys past the end are hidden by the mask */
%   end
% else
    int all = wide::tile_kept(args, batch, head, first + shift, last + shift, fixed_first,
                              fixed_last);
%   if mask.open_end then
    if (all == wide::ALL && fixed_first + args.fixed > args.seqlen_k)
      all = wide::SOME; /* keys past the end are hidden by the mask */
%   end
% end
    kept[tile] = all;
  }
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  int begin = tiles, end = 0, full_begin = 0, full_end = 0, gap_begin = 0, gap_end = 0, run = 0;
  for (int tile = 0, next; tile < tiles; tile = next) {
    const int kind = kept[tile];
    const unsigned long long eight = kind * 0x0101010101010101ull;
    next = tile + 1; /* and eight of the same kind at once */
    while (next % 8 == 0 && next + 8 <= tiles && *(unsigned long long *)(kept + next) == eight)
      next += 8;
    if (kind != wide::NONE) {
      if (end > 0 && tile - end > gap_end - gap_begin) {
        gap_begin = end;
        gap_end = tile;
      }
      begin = min(begin, tile);
      end = next;
    }
    run = kind == wide::ALL ? run + next - tile : 0;
    if (run > full_end - full_begin) {
      full_begin = next - run;
      full_end = next;
    }
  }
  if (full_end == full_begin)
    full_begin = full_end = end;
  found = {begin, full_begin, full_end, end, gap_begin, gap_end};
}
% if tiles.longest_first then

DEVICE int length_of(const tile_bounds &of) {
  return of.end - of.begin - (of.gap_end - of.gap_begin);
}

/* The order in which tiles are taken: those with the most to walk first, so that all end together.
 * Grid: tiles / 128 x batch, all in x. */
extern "C" __global__ void __launch_bounds__(128)
${spec.name}_sort(const __grid_constant__ search_args args) {
  const int tiles = (args.seqlen_${fixed} + args.fixed - 1) / args.fixed;
  const int blocks = (tiles + 127) / 128, batch = blockIdx.x / blocks;
  const int tile = (blockIdx.x - batch * blocks) * 128 + threadIdx.x;
  const tile_bounds *of = args.searched + (long long)batch * tiles;
  __shared__ int lengths[128];
  const int length = tile < tiles ? length_of(of[tile]) : 0;
  int place = 0;
  for (int first = 0; first < tiles; first += 128) {
    const int other = first + threadIdx.x;
    __syncthreads();
    lengths[threadIdx.x] = other < tiles ? length_of(of[other]) : 0;
    __syncthreads();
    for (int i = 0; i < 128 && first + i < tiles; ++i)
      place += lengths[i] > length || (lengths[i] == length && first + i < tile);
  }
  if (tile < tiles)
    args.order[(long long)batch * tiles + place] = tile;
}
% end
