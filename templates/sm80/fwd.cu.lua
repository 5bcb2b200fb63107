% -- Attention forward with mma.sync: one block is one query tile of one head.
% local mask, score = require "mask", require "score"
% local position = { q = "q_position", k = "k_position", s = "s[i][j][e]", seqlen_k = "a.seqlen_k" }
% local walk = mask.runs { walked = "k", fixed = "q", first = "q_first", last = "q_last",
%                          tile = tiles.keys, tiles = "key_tiles", length = "a.seqlen_k",
%                          integer = "int", cut = true }
% local begin, finish = walk.runs[1].from, walk.runs[#walk.runs].to
% local positions = not mask.trivial or score.needs_positions
% local columns, odd = spec.dim_v // 8, spec.dim_v // 8 % 2 == 1
% local place_qk, place_v = "place" .. tiles.chunks_qk, "place" .. tiles.chunks_v
% local moved_v = "moved" .. tiles.chunks_v
% include "sm80/prelude.cu.lua"

% include "sm80/tile.cu.lua"

% include "sm80/products.cu.lua"

/* ---- The online softmax ------------------------------------------------------------------------------
 * (Milakov and Gimelshein, arXiv:1805.02867.) A warp owns ${tiles.rows} rows: a lane holds, of the i-th 16 of them,
 * rows lane / 4 and lane / 4 + 8, the h of what follows. Maxima, sums and O are of the keys seen so far.
 * exponent_scale turns a score into an exponent of 2. */

#define MINUS_INFINITY __uint_as_float(0xff800000u)

/* Bits are compared so that no compiler option has a say. */
DEVICE bool is_minus_infinity(float x) { return __float_as_uint(x) == 0xff800000u; }

/* Raises the maxima to those of the scores and scales down what was summed below the old ones. base is
 * what to subtract from scores: the maximum, or 0 for a row with no visible key yet. */
DEVICE void raise_maximum(float (&row_max)[${tiles.row_tiles}][2], float (&row_sum)[${tiles.row_tiles}][2], float (&o)[${tiles.row_tiles}][${columns}][4],
                          float (&base)[${tiles.row_tiles}][2], const float (&s)[${tiles.row_tiles}][KEYS / 8][4],
                          float exponent_scale) {
  float rescale[${tiles.row_tiles}][2];
  bool raised = false;
#pragma unroll
  for (int i = 0; i < ${tiles.row_tiles}; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float peak = row_max[i][h];
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
        peak = maximum(peak, maximum(s[i][j][2 * h], s[i][j][2 * h + 1]));
      peak = maximum(peak, __shfl_xor_sync(0xffffffffu, peak, 1)); /* four lanes share a row */
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
  for (int i = 0; i < ${tiles.row_tiles}; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      row_sum[i][h] = multiply(row_sum[i][h], rescale[i][h]);
#pragma unroll
      for (int j = 0; j < ${columns}; ++j) {
        o[i][j][2 * h] = multiply(o[i][j][2 * h], rescale[i][h]);
        o[i][j][2 * h + 1] = multiply(o[i][j][2 * h + 1], rescale[i][h]);
      }
    }
  }
}

/* row_sum += P and O += P V for P = exp(s - base), 16 keys at a time, so that the exponentials of the
 * next keys run beside the products of these. Subtracting first makes P exactly 1 at the maximum, however
 * large the scores. */
DEVICE void add_values(float (&o)[${tiles.row_tiles}][${columns}][4], float (&row_sum)[${tiles.row_tiles}][2],
                       const float (&s)[${tiles.row_tiles}][KEYS / 8][4], const float (&base)[${tiles.row_tiles}][2],
                       float exponent_scale, unsigned v_lane) {
#pragma unroll
  for (int step = 0; step < KEYS / 16; ++step) {
    unsigned p[${tiles.row_tiles}][4]; /* accumulators of two key columns are laid out as a left operand */
#pragma unroll
    for (int i = 0; i < ${tiles.row_tiles}; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int h = n % 2;
        const float *pair = &s[i][2 * step + n / 2][2 * h];
        const float p0 = exp2_approx(multiply(subtract(pair[0], base[i][h]), exponent_scale));
        const float p1 = exp2_approx(multiply(subtract(pair[1], base[i][h]), exponent_scale));
        row_sum[i][h] = add(row_sum[i][h], add(p0, p1));
        p[i][n] = pack(p0, p1);
      }
    }
#pragma unroll
    for (int j = 0; j < ${columns // 2}; ++j) {
      unsigned v[4];
      load_matrices_transposed(v, ${moved_v}(v_lane, 16 * step, 2 * j));
#pragma unroll
      for (int i = 0; i < ${tiles.row_tiles}; ++i) {
        mma(o[i][2 * j], p[i], v[0], v[1]);
        mma(o[i][2 * j + 1], p[i], v[2], v[3]);
      }
    }
% if odd then
    unsigned v[2]; /* the last 8 columns have no neighbour */
    load_two_matrices_transposed(v, ${moved_v}(v_lane, 16 * step, ${columns - 1}));
#pragma unroll
    for (int i = 0; i < ${tiles.row_tiles}; ++i)
      mma(o[i][${columns - 1}], p[i], v[0], v[1]);
% end
  }
}

/* ---- Forward -----------------------------------------------------------------------------------------
 * O = softmax(S) V and LSE, S = softmax_scale * Q K^T.
 *
 * Grid: query tiles x heads_q x batch, all in x; tiles of one head are neighbours, since they read the
 * same K and V${walk.longest == "last" and ", the last ones first, since they visit the most keys" or ""}.
 */
% local function start_keys(tile, to)
load_${tiles.k.shape}(${to}, k_rows + (long long)(${tile}) * KEYS * a.k.stride_seq, a.k.stride_seq, a.seqlen_k - ${tile} * KEYS);
% end
% local function start_values(tile, to)
load_${tiles.v.shape}(${to}, v_rows + (long long)(${tile}) * KEYS * a.v.stride_seq, a.v.stride_seq, a.seqlen_k - ${tile} * KEYS);
% end
% local function first_stage(name)
%   return (begin == "0" or tiles.stages == 1) and "" or string.format(" + %s %% 2 * %s_BYTES", begin, name)
% end
% local function edit_scores(masked)
%   if masked or score.needs_positions then
const int thread = thread_index(), lane = thread % 32;
%   end
#pragma unroll
for (int i = 0; i < ${tiles.row_tiles}; ++i) {
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
%   if (masked and not mask.trivial) or score.needs_positions then
      const int q_position = q_first + thread / 32 * ${tiles.rows} + 16 * i + lane / 4 + e / 2 * 8;
%   end
%   if masked or score.needs_positions then
      const int k_position = tile * KEYS + 8 * j + lane % 4 * 2 + e % 2;
%   end
%   if not score.identity then
      s[i][j][e] = multiply(s[i][j][e], a.softmax_scale);
      s[i][j][e] = ${score.text(position)};
%   end
%   if masked then
      if (!(${mask.predicate(position)}))
        s[i][j][e] = MINUS_INFINITY;
%   end
    }
  }
}
% end
% local function visit(masked)
%   if tiles.stages == 2 then
wait_copies<0>();
__syncthreads(); /* this tile has arrived, and nobody reads the one before any more */
if (tile + 1 < ${finish}) {
  ${capture(start_keys, "(tile + 1)", "k_tiles + (tile + 1) % 2 * K_BYTES")}
  ${capture(start_values, "(tile + 1)", "v_tiles + (tile + 1) % 2 * V_BYTES")}
}
commit_copies();
%   else
wait_copies<0>();
__syncthreads(); /* K has arrived, and nobody reads the V before any more */
${capture(start_values, "tile", "v_tiles")}
commit_copies();
%   end

float s[${tiles.row_tiles}][KEYS / 8][4] = {};
%   if tiles.stages == 2 then
multiply_nt(s, q_lane, k_lane + tile % 2 * K_BYTES);
%   else
multiply_nt(s, q_lane, k_lane);
wait_copies<0>();
__syncthreads(); /* V has arrived, and nobody reads K any more */
if (tile + 1 < ${finish}) {
  ${capture(start_keys, "(tile + 1)", "k_tiles")}
}
commit_copies();
%   end
%   if masked or not score.identity then
${capture(edit_scores, masked)}
%   end
float base[${tiles.row_tiles}][2];
raise_maximum(row_max, row_sum, o, base, s, exponent_scale);
%   if tiles.stages == 2 then
add_values(o, row_sum, s, base, exponent_scale, v_lane + tile % 2 * V_BYTES);
%   else
add_values(o, row_sum, s, base, exponent_scale, v_lane);
%   end
% end
extern "C" __global__ void __launch_bounds__(THREADS, ${tiles.blocks})
${spec.name}_main(const __grid_constant__ forward_args a) {
  /* Shared memory: Q, ${tiles.stages == 2 and "two K, two V" or "K, V"}; at the end O. */
  extern __shared__ __align__(1024) unsigned char shared[];
  enum { K_BYTES = 16 * ${tiles.chunks_qk} * KEYS, V_BYTES = 16 * ${tiles.chunks_v} * KEYS };
  const unsigned q_tile = (unsigned)__cvta_generic_to_shared(shared);
  const unsigned k_tiles = q_tile + 16 * ${tiles.chunks_qk} * QUERIES;
  const unsigned v_tiles = k_tiles + ${tiles.stages == 2 and "2 * " or ""}K_BYTES;

  const int query_tiles = (a.seqlen_q + QUERIES - 1) / QUERIES;
  const int key_tiles = (a.seqlen_k + KEYS - 1) / KEYS;
% if walk.longest == "last" then
  const int query_tile = query_tiles - 1 - (int)(blockIdx.x % query_tiles);
% else
  const int query_tile = blockIdx.x % query_tiles;
% end
  const int head = blockIdx.x / query_tiles % a.heads_q;
  const int batch = blockIdx.x / query_tiles / a.heads_q;
  const int row_first = query_tile * QUERIES;
  const int rows = min(QUERIES, a.seqlen_q - row_first);
% if positions then

  /* Positions are on the key axis: the last query stands at the last key. */
  const int q_first = row_first + (a.seqlen_k - a.seqlen_q);
% end
% if not mask.trivial then
  const int q_last = q_first + rows - 1;
% end
  ${walk.setup}

% if tiles.zero_fill then
  clear_${tiles.q.shape}(q_tile);
  clear_${tiles.k.shape}(k_tiles);
%   if tiles.stages == 2 then
  clear_${tiles.k.shape}(k_tiles + K_BYTES);
%   end
% end
  const element *k_rows = rows_of(a.k, batch, head / GROUP);
  const element *v_rows = rows_of(a.v, batch, head / GROUP);
  load_${tiles.q.shape}(q_tile, rows_of(a.q, batch, head) + row_first * a.q.stride_seq, a.q.stride_seq, rows);
  if (${begin} < ${finish}) {
    ${capture(start_keys, begin, "k_tiles" .. first_stage("K"))}
% if tiles.stages == 2 then
    ${capture(start_values, begin, "v_tiles" .. first_stage("V"))}
% end
  }
  commit_copies();

  const int first_lane = threadIdx.x % 32;
  const unsigned q_lane = q_tile + ${place_qk}(threadIdx.x / 32 * ${tiles.rows} + first_lane % 16, first_lane / 16);
  const unsigned k_lane = k_tiles + ${place_qk}(first_lane % 8 + first_lane / 16 * 8, first_lane / 8 % 2);
  const unsigned v_lane = v_tiles + ${place_v}(first_lane % 16, ${odd and columns == 1 and "0" or "first_lane / 16"});
% if score.identity then
  const float exponent_scale = multiply(a.softmax_scale, 1.44269504f); /* log2(e) */
% else
  const float exponent_scale = 1.44269504f; /* log2(e) */
% end
  float o[${tiles.row_tiles}][${columns}][4] = {}, row_max[${tiles.row_tiles}][2], row_sum[${tiles.row_tiles}][2] = {};
#pragma unroll
  for (int i = 0; i < ${tiles.row_tiles}; ++i)
    row_max[i][0] = row_max[i][1] = MINUS_INFINITY;
% for _, run in ipairs(walk.runs) do

  for (int tile = ${run.from}; tile < ${run.to}; ++tile) {
    ${capture(visit, run.masked)}
  }
% end

  /* O and LSE. A row that saw no key has the maximum -inf and the sum 0: O = 0, LSE = -inf. */
  wait_copies<0>();
  __syncthreads();
  const int thread = thread_index(), lane = thread % 32, warp_row = thread / 32 * ${tiles.rows};
  float *lse = a.lse + ((long long)batch * a.heads_q + head) * a.seqlen_q + row_first;
  const unsigned o_lane = q_tile + ${place_v}(warp_row + lane / 4, 0) + lane % 4 * 4;
#pragma unroll
  for (int i = 0; i < ${tiles.row_tiles}; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = row_sum[i][h];
      sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
      sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
      const float inverse = __float_as_uint(sum) == 0 ? 0.0f : reciprocal(sum);
      const int row = warp_row + 16 * i + 8 * h + lane / 4;
      if (lane % 4 == 0 && row < rows)
        lse[row] = multiply_add(row_max[i][h], ${score.identity and "a.softmax_scale" or "1.0f"},
                                multiply(log2_approx(sum), 0.693147181f)); /* ln(2) */
#pragma unroll
      for (int j = 0; j < ${columns}; ++j)
        store_shared(${moved_v}(o_lane, 16 * i + 8 * h, j),
                     pack(multiply(o[i][j][2 * h], inverse), multiply(o[i][j][2 * h + 1], inverse)));
    }
  }
  __syncthreads();
  store_${tiles.o.shape}(rows_of(a.o, batch, head) + row_first * a.o.stride_seq, a.o.stride_seq, q_tile, rows);
}
