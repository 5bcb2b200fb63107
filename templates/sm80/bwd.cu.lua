% -- Attention backward with mma.sync: preprocess, then one block a key tile, then dQ's conversion.
% local mask, score = require "mask", require "score"
% local position = { q = "q_position", k = "k_position", s = "s[i][j][e]", seqlen_k = "a.seqlen_k" }
% local det = spec.deterministic
% local factor = not score.unit_derivative
% local positions = not mask.trivial or score.needs_positions
% local place_qk, place_v, place_p = "place" .. tiles.chunks_qk, "place" .. tiles.chunks_v, "place" .. tiles.chunks_p
% local moved_p = "moved" .. tiles.chunks_p
% local two = tiles.stages == 2
% local walk = mask.runs { walked = "q", fixed = "k", first = "key_first", last = "key_last",
%                          tile = tiles.queries, tiles = "query_tiles", length = "a.seqlen_q",
%                          shift = "shift", integer = "int", inside = "keys == KEYS" }
% local begin, finish = walk.runs[1].from, walk.runs[#walk.runs].to
% include "sm80/prelude.cu.lua"

% include "sm80/tile.cu.lua"

% include "sm80/products.cu.lua"

% include "sm80/preprocess.cu.lua"

/* ---- Backward ----------------------------------------------------------------------------------------
 * With P = exp(S - LSE) rebuilt from Q, K and LSE, and D from the preprocess,
 *   dV = P^T dO,  dP = dO V^T,  dS = P * (dP - D),  dQ = softmax_scale * dS K,
 *   dK = softmax_scale * dS^T Q
 * (Dao et al., arXiv:2205.14135, algorithm 4). Keys are the outer loop: dK and dV of a key tile stay in
 * registers while all queries of all heads of the group pass by, so that nothing is added to them in
 * memory and K, V, dK, dV are never expanded. dQ is summed in memory in f32, as the fragments lie.
 *
 * Grid: key tiles x heads_kv x batch, all in x; tiles of one head are neighbours, since they read the
 * same Q and dO.
 */

#define PLUS_INFINITY __uint_as_float(0x7f800000u)
#define MINUS_INFINITY __uint_as_float(0xff800000u)

/* -LSE in exponents of 2. A row that saw no key has the LSE -inf and gets -inf here, so that its P is 0;
 * so do rows past the end. Bits are compared so that no compiler option has a say. */
DEVICE float minus_exponent(float lse) {
  return __float_as_uint(lse) == 0xff800000u ? MINUS_INFINITY : multiply(lse, -1.44269504f); /* log2(e) */
}

/* Puts a warp's part of P or dS, rounded, where the products find it. */
DEVICE void store_fragments(unsigned lane_address, const float (&c)[${tiles.s.row_tiles}][${2 * tiles.s.pairs}][4]) {
#pragma unroll
  for (int i = 0; i < ${tiles.s.row_tiles}; ++i) {
#pragma unroll
    for (int j = 0; j < ${2 * tiles.s.pairs}; ++j) {
      store_shared(${moved_p}(lane_address, 16 * i, j), pack(c[i][j][0], c[i][j][1]));
      store_shared(${moved_p}(lane_address, 16 * i + 8, j), pack(c[i][j][2], c[i][j][3]));
    }
  }
}
% -- Puts a warp's part of dK, dV or dQ, rounded, into a tile that leaves by rows.
% local function stage(values, grid, chunks, scale)
#pragma unroll
for (int i = 0; i < ${grid.row_tiles}; ++i) {
#pragma unroll
  for (int j = 0; j < ${2 * grid.pairs}; ++j) {
%   if grid.uneven then
    if (pair + ${grid.cols} * (j / 2) >= ${chunks // 2})
      continue;
%   end
#pragma unroll
    for (int h = 0; h < 2; ++h)
      store_shared(moved${chunks}(to, 16 * i + 8 * h, ${2 * grid.cols} * (j / 2) + j % 2),
%   if scale then
                   pack(multiply(${values}[i][j][2 * h], a.softmax_scale),
                        multiply(${values}[i][j][2 * h + 1], a.softmax_scale)));
%   else
                   pack(${values}[i][j][2 * h], ${values}[i][j][2 * h + 1]));
%   end
  }
}
% end
% if det then

/* dQ is summed in one order, key tiles descending: a warp adds its part of a query tile only when the
 * same warp of the block of the next key tile has passed that query tile, which it tells by a counter
 * of turns, tiles of all heads of the group counted in order. Blocks take their key tiles in the order
 * in which they start, so a block waits only for blocks that started before it. */

DEVICE void await_turn(const int *counter, int turn) {
  if (threadIdx.x % 32 == 0)
    while (load_acquire(counter) < turn) {
    }
  __syncwarp();
}

DEVICE void pass_turn(int *counter, int turn) {
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    store_release(counter, turn);
}
% end
% local function start_queries(tile, head, at)
%   local to = at == "" and "" or " + " .. at .. " * "
load_${tiles.q.shape}(q_tiles${to ~= "" and to .. "Q_BYTES" or ""}, rows_of(a.q, batch, ${head}) + (long long)(${tile}) * QUERIES * a.q.stride_seq, a.q.stride_seq, a.seqlen_q - ${tile} * QUERIES);
load_${tiles.dout.shape}(dout_tiles${to ~= "" and to .. "DOUT_BYTES" or ""}, rows_of(a.dout, batch, ${head}) + (long long)(${tile}) * QUERIES * a.dout.stride_seq, a.dout.stride_seq, a.seqlen_q - ${tile} * QUERIES);
% end
% local function start_next(at)
%   if spec.group == 1 then
if (tile + 1 < ${finish}) {
  ${capture(start_queries, "(tile + 1)", "head", at)}
}
%   else
int next = tile + 1, next_head = head;
if (next == ${finish}) {
  next = ${begin};
  ++next_head;
}
if (next_head < (head_kv + 1) * GROUP) {
  ${capture(start_queries, "next", "next_head", at)}
}
%   end
commit_copies();
% end
% local function visit(masked)
wait_copies<0>();
__syncthreads(); /* Q and dO have arrived, and nobody reads those before, P or dS any more */
%   if two then
${capture(start_next, "(stage ^ 1)")}
%   end

const int row_first = tile * QUERIES;
const long long row_0 = ((long long)batch * a.heads_q + head) * a.seqlen_q + row_first;
float minus_lse[${tiles.s.row_tiles}][2], d[${tiles.s.row_tiles}][2];
#pragma unroll
for (int i = 0; i < ${tiles.s.row_tiles}; ++i) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = s_row + 16 * i + 8 * h + lane / 4;
    const bool inside = row < a.seqlen_q - row_first;
    minus_lse[i][h] = inside ? minus_exponent(a.lse[row_0 + row]) : MINUS_INFINITY;
    d[i][h] = inside ? a.d[row_0 + row] : 0.0f;
  }
}

float s[${tiles.s.row_tiles}][${2 * tiles.s.pairs}][4] = {}, ds[${tiles.s.row_tiles}][${2 * tiles.s.pairs}][4] = {};
${tiles.product_s.name}(s, q_lane${two and " + stage * Q_BYTES" or ""}, k_lane);
${tiles.product_dp.name}(ds, dout_lane${two and " + stage * DOUT_BYTES" or ""}, v_lane);
#pragma unroll
for (int i = 0; i < ${tiles.s.row_tiles}; ++i) {
#pragma unroll
  for (int j = 0; j < ${2 * tiles.s.pairs}; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
%   if (masked and not mask.trivial) or score.needs_positions then
      const int q_position = row_first + shift + s_row + 16 * i + lane / 4 + e / 2 * 8;
%   end
%   if masked or score.needs_positions then
      const int k_position = key_first + s_key + 8 * j + lane % 4 * 2 + e % 2;
%   end
%   if not score.identity then
      s[i][j][e] = multiply(s[i][j][e], a.softmax_scale);
%   end
%   if factor then
      const float derivative = ${score.derivative_text(position)};
%   end
%   if not score.identity then
      s[i][j][e] = ${score.text(position)};
%   end
      s[i][j][e] = exp2_approx(multiply_add(s[i][j][e], exponent_scale, minus_lse[i][e / 2]));
      ds[i][j][e] = multiply(s[i][j][e], subtract(ds[i][j][e], d[i][e / 2]));
%   if factor then
      ds[i][j][e] = multiply(ds[i][j][e], derivative);
%   end
%   if masked then
      if (!(${mask.predicate(position)}))
        s[i][j][e] = ds[i][j][e] = 0.0f;
%   end
    }
  }
}
store_fragments(p_lane, s);
store_fragments(p_lane + P_BYTES, ds);
__syncthreads(); /* P and dS are whole */
%   if det then
pass_turn(turns, passed); /* late, when the additions of the turn before have arrived for long */
%   end

${tiles.product_dv.name}(dv, p_left, dout_right${two and " + stage * DOUT_BYTES" or ""}${tiles.dv.uneven and ", dv_pair" or ""});
${tiles.product_dk.name}(dk, ds_left, q_right${two and " + stage * Q_BYTES" or ""}${tiles.dk.uneven and ", dk_pair" or ""});
%   if not two then
__syncthreads(); /* nobody reads Q and dO any more */
${capture(start_next, "")}
%   end
float dq[${tiles.dq.row_tiles}][${2 * tiles.dq.pairs}][4] = {};
${tiles.product_dq.name}(dq, ds_rows, k_right${tiles.dq.uneven and ", dq_pair" or ""});

%   if det then
passed = (head - head_kv * GROUP) * query_tiles + tile + 1;
if (key_tile + 1 < key_tiles)
  await_turn(turns + WARPS, passed);
%   end
float *dq_sum = a.dq_sum + (((long long)batch * a.heads_q + head) * query_tiles + tile) * DQ_FLOATS + dq_place;
#pragma unroll
for (int i = 0; i < ${tiles.dq.row_tiles}; ++i) {
#pragma unroll
  for (int j = 0; j < ${2 * tiles.dq.pairs}; ++j) {
%   if tiles.dq.uneven then
    if (j >= ${2 * tiles.dq.pairs - 2} && dq_pair + ${tiles.dq.cols * (tiles.dq.pairs - 1)} >= ${tiles.chunks_qk // 2})
      continue;
%   end
%   if spec.arch >= 90 then
    add_to_memory(dq_sum + (i * ${2 * tiles.dq.pairs} + j) * 128, dq[i][j]);
%   else
#pragma unroll
    for (int e = 0; e < 4; ++e)
      add_to_memory(dq_sum + (i * ${2 * tiles.dq.pairs} + j) * 128 + e * 32, dq[i][j][e]);
%   end
  }
}
%   if two then
stage ^= 1;
%   end
% end

extern "C" __global__ void __launch_bounds__(THREADS, ${tiles.blocks})
${spec.name}_main(const __grid_constant__ backward_args a) {
  /* Shared memory: K, V, ${two and "two Q, two dO" or "Q, dO"}, P, dS; at the end dK and dV in the place of K and V. */
  extern __shared__ __align__(1024) unsigned char shared[];
  enum {
    K_BYTES = 16 * ${tiles.chunks_qk} * KEYS,
    V_BYTES = 16 * ${tiles.chunks_v} * KEYS,
    Q_BYTES = 16 * ${tiles.chunks_qk} * QUERIES,
    DOUT_BYTES = 16 * ${tiles.chunks_v} * QUERIES,
    P_BYTES = 2 * QUERIES * KEYS,
    DQ_FLOATS = ${tiles.dq_floats} /* of dQ's sum for a query tile */
  };
  const unsigned k_tile = (unsigned)__cvta_generic_to_shared(shared);
  const unsigned v_tile = k_tile + K_BYTES;
  const unsigned q_tiles = v_tile + V_BYTES;
  const unsigned dout_tiles = q_tiles + ${two and "2 * " or ""}Q_BYTES;
  const unsigned p_tile = dout_tiles + ${two and "2 * " or ""}DOUT_BYTES;

  const int key_tiles = (a.seqlen_k + KEYS - 1) / KEYS;
  const int query_tiles = (a.seqlen_q + QUERIES - 1) / QUERIES;
% if det then
  if (threadIdx.x == 0)
    *(volatile int *)shared = draw_ticket(a.turns);
  __syncthreads();
  const int ticket = *(volatile int *)shared;
  __syncthreads();
  const int key_tile = key_tiles - 1 - ticket / a.pairs;
  const int head_kv = ticket % a.pairs % a.heads_kv, batch = ticket % a.pairs / a.heads_kv;
  int *turns = a.turns + 1 + ((long long)ticket % a.pairs * key_tiles + key_tile) * WARPS + threadIdx.x / 32;
% else
  const int key_tile = blockIdx.x % key_tiles;
  const int head_kv = blockIdx.x / key_tiles % a.heads_kv;
  const int batch = blockIdx.x / key_tiles / a.heads_kv;
% end
  const int key_first = key_tile * KEYS;
  const int keys = min(KEYS, a.seqlen_k - key_first);
% if positions then

  /* Positions are on the key axis: the last query stands at the last key. */
  const int shift = a.seqlen_k - a.seqlen_q;
% end
% if not mask.trivial then
  const int key_last = key_first + KEYS - 1;
% end
  ${walk.setup}

% if tiles.q.zero_fill then
  clear_${tiles.k.shape}(k_tile);
  clear_${tiles.q.shape}(q_tiles);
%   if two then
  clear_${tiles.q.shape}(q_tiles + Q_BYTES);
%   end
% end
% if tiles.v.zero_fill then
  clear_${tiles.v.shape}(v_tile);
  clear_${tiles.dout.shape}(dout_tiles);
%   if two then
  clear_${tiles.dout.shape}(dout_tiles + DOUT_BYTES);
%   end
% end
  load_${tiles.k.shape}(k_tile, rows_of(a.k, batch, head_kv) + key_first * a.k.stride_seq, a.k.stride_seq, keys);
  load_${tiles.v.shape}(v_tile, rows_of(a.v, batch, head_kv) + key_first * a.v.stride_seq, a.v.stride_seq, keys);
  if (${begin} < ${finish}) {
    ${capture(start_queries, begin, "head_kv * GROUP", "")}
  }
  commit_copies();

  /* A warp's part of S and dP: ${16 * tiles.s.row_tiles} queries x ${16 * tiles.s.pairs} keys. */
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int s_row = warp % ${tiles.s.rows} * ${16 * tiles.s.row_tiles}, s_key = warp / ${tiles.s.rows} * ${16 * tiles.s.pairs};
  const unsigned q_lane = q_tiles + ${place_qk}(s_row + lane % 16, lane / 16);
  const unsigned k_lane = k_tile + ${place_qk}(s_key + lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const unsigned dout_lane = dout_tiles + ${place_v}(s_row + lane % 16, lane / 16);
  const unsigned v_lane = v_tile + ${place_v}(s_key + lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const unsigned p_lane = p_tile + ${place_p}(s_row + lane / 4, s_key / 8) + lane % 4 * 4;

  /* Of dV and dK: ${16 * tiles.dv.row_tiles} and ${16 * tiles.dk.row_tiles} keys, every ${tiles.dv.cols}th and every ${tiles.dk.cols}th pair of 8 columns. */
  const int dv_row = warp % ${tiles.dv.rows} * ${16 * tiles.dv.row_tiles}, dv_pair = warp / ${tiles.dv.rows};
  const int dk_row = warp % ${tiles.dk.rows} * ${16 * tiles.dk.row_tiles}, dk_pair = warp / ${tiles.dk.rows};
  const unsigned p_left = p_tile + ${place_p}(lane % 8 + lane / 16 * 8, dv_row / 8 + lane / 8 % 2);
  const unsigned ds_left = p_tile + P_BYTES + ${place_p}(lane % 8 + lane / 16 * 8, dk_row / 8 + lane / 8 % 2);
  const unsigned dout_right = dout_tiles + ${place_v}(lane % 16, 2 * dv_pair + lane / 16);
  const unsigned q_right = q_tiles + ${place_qk}(lane % 16, 2 * dk_pair + lane / 16);

  /* Of dQ: ${16 * tiles.dq.row_tiles} queries, every ${tiles.dq.cols}th pair of 8 columns. */
  const int dq_row = warp % ${tiles.dq.rows} * ${16 * tiles.dq.row_tiles}, dq_pair = warp / ${tiles.dq.rows};
  const unsigned ds_rows = p_tile + P_BYTES + ${place_p}(dq_row + lane % 16, lane / 16);
  const unsigned k_right = k_tile + ${place_qk}(lane % 16, 2 * dq_pair + lane / 16);
  const int dq_place = warp * ${tiles.dq.row_tiles * 2 * tiles.dq.pairs * 128} + lane${spec.arch >= 90 and " * 4" or ""};

% if score.identity then
  const float exponent_scale = multiply(a.softmax_scale, 1.44269504f); /* log2(e) */
% else
  const float exponent_scale = 1.44269504f; /* log2(e) */
% end
  float dk[${tiles.dk.row_tiles}][${2 * tiles.dk.pairs}][4] = {}, dv[${tiles.dv.row_tiles}][${2 * tiles.dv.pairs}][4] = {};
% if two then
  int stage = 0;
% end
% if det then
  int passed = 0;
% end
% if spec.group == 1 then
  const int head = head_kv;
% else

  for (int head = head_kv * GROUP; head < (head_kv + 1) * GROUP; ++head) {
% end
% local function walk_queries()
%   if det and begin ~= "0" then
/* Tiles before the first are passed when those before this block have passed them. */
passed = (head - head_kv * GROUP) * query_tiles + ${begin};
if (key_tile + 1 < key_tiles)
  await_turn(turns + WARPS, passed);
pass_turn(turns, passed);
%   end
%   for _, run in ipairs(walk.runs) do

for (int tile = ${run.from}; tile < ${run.to}; ++tile) {
  ${capture(visit, run.masked)}
}
%   end
% end
% if spec.group == 1 then
  ${capture(walk_queries)}
% else
    ${capture(walk_queries)}
  }
% end
% if det then

  /* The last turn, and with it those after the last tile that this block visits. */
  if (key_tile + 1 < key_tiles)
    await_turn(turns + WARPS, GROUP * query_tiles);
  pass_turn(turns, GROUP * query_tiles);
% end

  wait_copies<0>();
  __syncthreads(); /* nobody reads K and V any more */
  {
% if tiles.dk.uneven then
    const int pair = dk_pair;
% end
    const unsigned to = k_tile + ${place_qk}(dk_row + lane / 4, 2 * dk_pair) + lane % 4 * 4;
    ${capture(stage, "dk", tiles.dk, tiles.chunks_qk, true)}
  }
  {
% if tiles.dv.uneven then
    const int pair = dv_pair;
% end
    const unsigned to = v_tile + ${place_v}(dv_row + lane / 4, 2 * dv_pair) + lane % 4 * 4;
    ${capture(stage, "dv", tiles.dv, tiles.chunks_v, false)}
  }
  __syncthreads();
  store_${tiles.k.shape}(rows_of(a.dk, batch, head_kv) + key_first * a.dk.stride_seq, a.dk.stride_seq, k_tile, keys);
  store_${tiles.v.shape}(rows_of(a.dv, batch, head_kv) + key_first * a.dv.stride_seq, a.dv.stride_seq, v_tile, keys);
}

/* ---- Conversion --------------------------------------------------------------------------------------
 * dQ = softmax_scale * its sum, rounded, from the order of the fragments to rows.
 *
 * Grid: query tiles x heads_q x batch, all in x.
 */
extern "C" __global__ void __launch_bounds__(THREADS)
${spec.name}_convert(const __grid_constant__ convert_args a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const unsigned q_tile = (unsigned)__cvta_generic_to_shared(shared);
  const int query_tiles = (a.seqlen_q + QUERIES - 1) / QUERIES;
  const int row_first = blockIdx.x % query_tiles * QUERIES;
  const int head = blockIdx.x / query_tiles % a.heads_q;
  const int batch = blockIdx.x / query_tiles / a.heads_q;

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int dq_row = warp % ${tiles.dq.rows} * ${16 * tiles.dq.row_tiles}, pair = warp / ${tiles.dq.rows};
  const float *dq_sum = a.dq_sum + (long long)blockIdx.x * ${tiles.dq_floats} + warp * ${tiles.dq.row_tiles * 2 * tiles.dq.pairs * 128} + lane${spec.arch >= 90 and " * 4" or ""};
  float dq[${tiles.dq.row_tiles}][${2 * tiles.dq.pairs}][4];
#pragma unroll
  for (int i = 0; i < ${tiles.dq.row_tiles}; ++i) {
#pragma unroll
    for (int j = 0; j < ${2 * tiles.dq.pairs}; ++j) {
% if spec.arch >= 90 then
      const float4 sum = *(const float4 *)(dq_sum + (i * ${2 * tiles.dq.pairs} + j) * 128);
      dq[i][j][0] = sum.x;
      dq[i][j][1] = sum.y;
      dq[i][j][2] = sum.z;
      dq[i][j][3] = sum.w;
% else
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dq[i][j][e] = dq_sum[(i * ${2 * tiles.dq.pairs} + j) * 128 + e * 32];
% end
    }
  }
  const unsigned to = q_tile + ${place_qk}(dq_row + lane / 4, 2 * pair) + lane % 4 * 4;
  ${capture(stage, "dq", tiles.dq, tiles.chunks_qk, true)}
  __syncthreads();
  store_${tiles.q.shape}(rows_of(a.dq, batch, head) + row_first * a.dq.stride_seq, a.dq.stride_seq, q_tile, a.seqlen_q - row_first);
}
