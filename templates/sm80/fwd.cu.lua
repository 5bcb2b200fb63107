% -- Attention forward with mma.sync: one block is one query tile of one head.
% local mask, score = require "mask", require "score"
% local text, places = require "expr_text", require "sm80.names"
% local uniforms, position = score.uniforms(places.of, mask.pairwise)
% local searched
% if mask.searched "k" then
%   local group = require("linear").depends(mask.keep).head and "head" or "batch"
%   searched = "a.searched[" .. group .. " * a.query_tiles.number + query_tile]"
% end
% local walk = mask.runs { walked = "k", fixed = "q", first = "q_first", last = "q_last",
%                          tile = tiles.keys, tiles = "a.key_tiles", length = "a.seqlen_k",
%                          integer = "int", cut = true, names = places.of, searched = searched }
% local seen = searched and text.names_with(position, { eager = true }) or position
% local begin, finish = walk.runs[1].from, walk.runs[#walk.runs].to
% -- A tile, or the one after the gap that it begins: without a gap both ends are 0.
% local function beyond_gap(tile)
%   return searched and string.format("%s == gap_begin ? gap_end : %s", tile, tile) or tile
% end
% local positions = not mask.trivial or score.needs_positions
% local two = tiles.stages == 2
% local odd = tiles.chunks_v % 2 == 1
% local place_qk, place_v = "place" .. tiles.chunks_qk, "place" .. tiles.chunks_v
% local moved_v = "moved" .. tiles.chunks_v
% include "sm80/prelude.cu.lua"

% include "sm80/tile.cu.lua"

% include "sm80/products.cu.lua"

/* ---- The online softmax ------------------------------------------------------------------------
 * (Milakov and Gimelshein, arXiv:1805.02867.) Maxima, sums and O are of the keys seen so far.
 * A warp owns ${tiles.rows} rows. In what follows i is the 16 rows, h the half of them: a lane
 * holds values of rows lane / 4 and lane / 4 + 8 of each 16, and four lanes share a row. */

enum {
  ROW_TILES = ${tiles.row_tiles},
  PART = ${tiles.part} /* keys at a time where a mask needs registers too */
};

typedef float row_values[ROW_TILES][2];
typedef float outputs[ROW_TILES][DIM_V / 8][4];

#define MINUS_INFINITY __uint_as_float(0xff800000u)

/* Bits are compared, which no compiler option changes. */
DEVICE bool is_minus_infinity(float x) { return __float_as_uint(x) == 0xff800000u; }

/* Raises the maxima to those of the scores and scales down what was summed below the old ones.
 * base is what to subtract from scores: the maximum, or 0 for a row with no visible key yet.
 * exponent_scale turns a score into an exponent of 2. */
template <int columns>
DEVICE void raise_maximum(row_values &row_max, row_values &row_sum, outputs &o, row_values &base,
                          const float (&s)[ROW_TILES][columns][4], float exponent_scale) {
  row_values rescale;
  bool raised = false;
#pragma unroll
  for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float peak = row_max[i][h];
#pragma unroll
      for (int j = 0; j < columns; ++j)
        peak = maximum(peak, maximum(s[i][j][2 * h], s[i][j][2 * h + 1]));
      peak = maximum(peak, __shfl_xor_sync(0xffffffffu, peak, 1));
      peak = maximum(peak, __shfl_xor_sync(0xffffffffu, peak, 2));
      base[i][h] = is_minus_infinity(peak) ? 0.0f : peak;
      rescale[i][h] = exp2_approx(multiply(subtract(row_max[i][h], base[i][h]), exponent_scale));
      raised |= __float_as_uint(peak) != __float_as_uint(row_max[i][h]);
      row_max[i][h] = peak;
    }
  }
  if (!__any_sync(0xffffffffu, raised))
    return; /* the rule once many keys are seen: no row of the warp has a new maximum */
#pragma unroll
  for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      row_sum[i][h] = multiply(row_sum[i][h], rescale[i][h]);
#pragma unroll
      for (int j = 0; j < DIM_V / 8; ++j) {
        o[i][j][2 * h] = multiply(o[i][j][2 * h], rescale[i][h]);
        o[i][j][2 * h + 1] = multiply(o[i][j][2 * h + 1], rescale[i][h]);
      }
    }
  }
}

/* row_sum += P and O += P V for P = exp(s - base), 16 keys at a time, so that the exponentials of
 * the next keys run beside the products of these. Subtracting before scaling makes P exactly 1 at
 * the maximum, however large the scores: one multiply-add would round them differently. */
template <int columns>
DEVICE void add_values(outputs &o, row_values &row_sum, const float (&s)[ROW_TILES][columns][4],
                       const row_values &base, float exponent_scale, unsigned v_lane) {
#pragma unroll
  for (int step = 0; step < columns / 2; ++step) {
    unsigned p[ROW_TILES][4]; /* sums of 16 x 8, two side by side, are laid out as a left operand */
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int j = 2 * step + n / 2, h = n % 2;
        const float p0 = exp2_approx(
            multiply(subtract(s[i][j][2 * h], base[i][h]), exponent_scale));
        const float p1 = exp2_approx(
            multiply(subtract(s[i][j][2 * h + 1], base[i][h]), exponent_scale));
        row_sum[i][h] = add(row_sum[i][h], add(p0, p1));
        p[i][n] = pack(p0, p1);
      }
    }
% if tiles.chunks_v > 1 then
#pragma unroll
    for (int j = 0; j < ${tiles.chunks_v // 2}; ++j) {
      unsigned v[4];
      load_matrices_transposed(v, ${moved_v}(v_lane, 16 * step, 2 * j));
#pragma unroll
      for (int i = 0; i < ROW_TILES; ++i) {
        mma(o[i][2 * j], p[i], v[0], v[1]);
        mma(o[i][2 * j + 1], p[i], v[2], v[3]);
      }
    }
% end
% if odd then
    unsigned last[2]; /* 8 columns without a neighbour */
    load_two_matrices_transposed(last, ${moved_v}(v_lane, 16 * step, ${tiles.chunks_v - 1}));
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
      mma(o[i][${tiles.chunks_v - 1}], p[i], last[0], last[1]);
% end
  }
}

/* ---- Shared memory --------------------------------------------------------------------------- */

enum {
  K_BYTES = 16 * ${tiles.chunks_qk} * KEYS,
  V_BYTES = 16 * ${tiles.chunks_v} * KEYS,
  Q_TILE = 0, /* at the end O */
  K_TILES = Q_TILE + 16 * ${tiles.chunks_qk} * QUERIES,
% if two then
  V_TILES = K_TILES + 2 * K_BYTES /* two of each, in turn */
% else
  V_TILES = K_TILES + K_BYTES
% end
};

/* Start copying a tile of K and of V for a query head. Its rows are found anew each time, since S
 * needs the registers. */
% local function place_of(name)
%   return two and string.format(" + tile %% 2 * %s_BYTES", name) or ""
% end
DEVICE void start_k(const forward_args &a, unsigned memory, unsigned head, int tile) {
  load_${tiles.k.shape}(memory + K_TILES${place_of "K"},
      rows_of(a.k, a.heads_kv, anew(head) / GROUP), a.k.stride_seq, tile * KEYS, a.seqlen_k);
}

DEVICE void start_v(const forward_args &a, unsigned memory, unsigned head, int tile) {
  load_${tiles.v.shape}(memory + V_TILES${place_of "V"},
      rows_of(a.v, a.heads_kv, anew(head) / GROUP), a.v.stride_seq, tile * KEYS, a.seqlen_k);
}

/* Where lane t reads V first, transposed as a right operand. */
DEVICE unsigned first_value(unsigned v_tile, int t) {
% if tiles.chunks_v == 1 then
  return v_tile + ${place_v}(t % 16, 0);
% else
  return v_tile + ${place_v}(t % 16, t / 16);
% end
}

/* ---- Forward -----------------------------------------------------------------------------------
 * O = softmax(S) V and LSE, S = softmax_scale * Q K^T.
 *
 * Grid: query tiles x heads_q x batch, all in x. Tiles of one head are neighbours, since they read
% if walk.longest == "last" then
 * the same K and V; the last ones, which see the most keys, come first.
% else
 * the same K and V.
% end
 */
% -- Scores of `keys` keys from key `first` of the tile on, edited in place.
% local function edit_scores(masked, keys, first)
%   if masked or score.needs_positions then
const unsigned thread = thread_index(), lane = thread % 32;
%   end
#pragma unroll
for (int j = 0; j < ${keys} / 8; ++j) { /* keys outside: few positions are alive at a time */
#pragma unroll
  for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
%   if (masked and not mask.trivial) or score.needs_positions then
      const int row = thread / 32 * ${tiles.rows} + 16 * i + e / 2 * 8 + lane / 4;
      const int q_position = q_first + row;
%   end
%   if masked or score.needs_positions then
      const int k_position = tile * KEYS${first} + 8 * j + lane % 4 * 2 + e % 2;
%   end
%   if not score.identity then
      s[i][j][e] = multiply(s[i][j][e], a.softmax_scale);
      ${score.lines(position)}
%   end
%   if masked then
      ${text.wrap("if (!(" .. mask.predicate(seen) .. "))")}
        s[i][j][e] = MINUS_INFINITY;
%   end
    }
  }
}
% end
% -- The step of one tile, or of the PART keys from `first` on of one that is masked.
% local function add_tile(masked)
%   local keys = masked and "PART" or "KEYS"
%   local function lane(name)
%     local bytes = name:upper() .. "_BYTES"
%     local stage = two and " + stage * " .. bytes or ""
%     return name .. "_lane" .. stage .. (masked and " + first * (" .. bytes .. " / KEYS)" or "")
%   end
float s[ROW_TILES][${keys} / 8][4] = {};
multiply_nt(s, Q_TILE, q_lane, K_TILES, ${lane "k"});
%   if two and not masked then
if (tile + 1 < ${finish}) {
  start_k(a, memory, head, ${beyond_gap "tile + 1"});
  start_v(a, memory, head, ${beyond_gap "tile + 1"});
}
commit_copies();
%   end
%   if not two and not masked then
wait_copies<0>();
__syncthreads(); /* V has arrived, and nobody reads K any more */
if (tile + 1 < ${finish})
  start_k(a, memory, head, ${beyond_gap "tile + 1"});
commit_copies();
%   end
%   if masked or not score.identity then
${capture(edit_scores, masked, keys, masked and " + first" or "")}
%   end
%   if not two then
const unsigned v_lane = first_value(memory + V_TILES, thread_index() % 32);
%   end
row_values base;
raise_maximum(row_max, row_sum, o, base, s, a.exponent_scale);
add_values(o, row_sum, s, base, a.exponent_scale,
           ${lane "v"});
% end
% local function visit(masked)
%   if two then
const int stage = tile % 2;
%   end
wait_copies<0>();
%   if two then
__syncthreads(); /* this tile has arrived, and nobody reads the one before any more */
%   else
__syncthreads(); /* K has arrived, and nobody reads the V before any more */
start_v(a, memory, head, tile);
commit_copies();
%   end

%   if two and masked then
if (tile + 1 < ${finish}) {
  start_k(a, memory, head, ${beyond_gap "tile + 1"});
  start_v(a, memory, head, ${beyond_gap "tile + 1"});
}
commit_copies();
%   end
%   if not masked then
${capture(add_tile, false)}
%   else
%     if not two then
wait_copies<0>();
__syncthreads(); /* V has arrived */
%     end
#pragma unroll 1
for (int first = 0; first < KEYS; first += PART) {
  ${capture(add_tile, true)}
}
%     if not two then
__syncthreads(); /* nobody reads K any more */
if (tile + 1 < ${finish})
  start_k(a, memory, head, ${beyond_gap "tile + 1"});
commit_copies();
%     end
%   end
% end
% if searched then
%   include "gpu_search.cu.lua"

% end
extern "C" __global__ void __launch_bounds__(THREADS, ${tiles.blocks})
${spec.name}_main(const __grid_constant__ forward_args a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const unsigned memory = (unsigned)__cvta_generic_to_shared(shared);
  const unsigned head = divide(blockIdx.x, a.query_tiles); /* of batch x heads_q */
% if walk.longest == "last" then
  const int query_tile = (head + 1) * a.query_tiles.number - 1 - blockIdx.x;
% else
  const int query_tile = blockIdx.x - head * a.query_tiles.number;
% end
% local sink = score.sink and text.inline(score.sink, position) or ""
% local said = mask.predicate(position) .. (score.identity and "" or score.text(position))
  ${score.declared(places.declare, uniforms, walk.setup, said, sink)}
  ${uniforms}
  const int row_first = query_tile * QUERIES;
% if positions then

  /* Positions are on the key axis: the last query stands at the last key. */
  const int q_first = row_first + (a.seqlen_k - a.seqlen_q);
% end
% if not mask.trivial then
  const int q_last = min(q_first + QUERIES, a.seqlen_k) - 1;
% end
  ${walk.setup}
% if searched then
%   if two then
  /* Of an even length: tiles use the two buffers in turns. */
  const int gap_begin = found.gap_begin, gap = (found.gap_end - found.gap_begin) / 2 * 2;
  const int gap_end = gap_begin + gap;
%   else
  const int gap_begin = found.gap_begin, gap_end = found.gap_end;
%   end
% end

% if tiles.zero_fill then
  clear_${tiles.q.shape}(memory + Q_TILE);
  clear_${tiles.k.shape}(memory + K_TILES);
%   if two then
  clear_${tiles.k.shape}(memory + K_TILES + K_BYTES);
%   end
% end
  load_${tiles.q.shape}(memory + Q_TILE, rows_of(a.q, a.heads_q, head), a.q.stride_seq, row_first,
      a.seqlen_q);
  if (${begin} < ${finish}) {
    start_k(a, memory, head, ${begin});
% if two then
    start_v(a, memory, head, ${begin});
% end
  }
  commit_copies();

  const int t = threadIdx.x % 32;
  const unsigned q_lane = memory + ${place_qk}(threadIdx.x / 32 * ${tiles.rows} + t % 16, t / 16);
  const unsigned k_lane = memory + ${place_qk}(t % 8 + t / 16 * 8, t / 8 % 2);
% if two then
  const unsigned v_lane = first_value(memory + V_TILES, t);
% end
  outputs o = {};
  row_values row_max, row_sum = {};
#pragma unroll
  for (int i = 0; i < ROW_TILES; ++i)
    row_max[i][0] = row_max[i][1] = MINUS_INFINITY;
% for _, run in ipairs(walk.runs) do

#pragma unroll 1
%   if searched then
  for (int tile = ${beyond_gap(run.from)}; tile < ${run.to};
       tile = ${beyond_gap "tile + 1"}) {
%   else
  for (int tile = ${run.from}; tile < ${run.to}; ++tile) {
%   end
    ${capture(visit, run.masked)}
  }
% end

  /* A row that saw no key has the maximum -inf and the sum 0: O = 0, LSE = -inf. */
  wait_copies<0>();
  __syncthreads();
  const int thread = thread_index(), lane = thread % 32, warp_row = thread / 32 * ${tiles.rows};
  float *lse = a.lse + (long long)head * a.seqlen_q + row_first;
% if score.sink then
  const float sink = multiply(${sink}, 1.44269504f); /* log2(e) */
% end
  const unsigned o_lane = memory + Q_TILE + ${place_v}(warp_row + lane / 4, 0) + lane % 4 * 4;
#pragma unroll
  for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = row_sum[i][h];
      sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
      sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
% if score.sink then
      /* The sink joins the sum, both below the larger of maximum and sink. */
      const float peak = multiply(row_max[i][h], a.exponent_scale);
      const float top = maximum(maximum(peak, sink), -3.40282347e38f);
      const float lowered = exp2_approx(subtract(peak, top));
      const float total = multiply_add(sum, lowered, exp2_approx(subtract(sink, top)));
      const float inverse =
          __float_as_uint(sum) == 0 ? 0.0f : multiply(lowered, reciprocal(total));
% else
      const float inverse = __float_as_uint(sum) == 0 ? 0.0f : reciprocal(sum);
% end
      const int row = warp_row + 16 * i + 8 * h + lane / 4;
      if (lane % 4 == 0 && row < a.seqlen_q - row_first)
% if score.sink then
        lse[row] = multiply(add(log2_approx(total), top), 0.693147181f); /* ln(2) */
% elseif score.identity then
        lse[row] = multiply_add(row_max[i][h], a.softmax_scale,
                                multiply(log2_approx(sum), 0.693147181f)); /* ln(2) */
% else
        lse[row] = multiply_add(log2_approx(sum), 0.693147181f, row_max[i][h]); /* ln(2) */
% end
#pragma unroll
      for (int j = 0; j < DIM_V / 8; ++j) {
        const float o0 = multiply(o[i][j][2 * h], inverse);
        const float o1 = multiply(o[i][j][2 * h + 1], inverse);
        store_shared(${moved_v}(o_lane, 16 * i + 8 * h, j), pack(o0, o1));
      }
    }
  }
  __syncthreads();
  store_${tiles.o.shape}(rows_of(a.o, a.heads_q, head), a.o.stride_seq, row_first, a.seqlen_q,
      memory + Q_TILE);
}
