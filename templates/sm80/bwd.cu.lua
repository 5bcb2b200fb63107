% -- Attention backward with mma.sync: preprocess, then one block a key tile, then dQ's conversion.
% local mask, score = require "mask", require "score"
% local text, places = require "expr_text", require "sm80.names"
% local uniforms, position = score.uniforms(places.of, mask.pairwise)
% local det, two, factor = spec.deterministic, tiles.stages == 2, not score.unit_derivative
% local positions = not mask.trivial or score.needs_positions
% local place_qk, place_v = "place" .. tiles.chunks_qk, "place" .. tiles.chunks_v
% local place_p, moved_p = "place" .. tiles.chunks_p, "moved" .. tiles.chunks_p
% -- Where the dimensions agree, operands of one shape begin at the same place of their tiles.
% local alike = tiles.chunks_qk == tiles.chunks_v
% local dp_a, dp_b = alike and "s_a" or "dp_a", alike and "s_b" or "dp_b"
% -- dQ's sum lies as the fragments of its warps: the four floats of a lane side by side where they
% -- can be added at once, else one float of all lanes.
% local dq_of_warp = tiles.dq.row_tiles * 2 * tiles.dq.pairs * 128
% local dq_lane = spec.arch >= 90 and "thread % 32 * 4" or "thread % 32"
% local walk = mask.runs { walked = "q", fixed = "k", first = "key_first", last = "key_last",
%                          tile = tiles.queries, tiles = "a.query_tiles", length = "a.seqlen_q",
%                          shift = "shift", integer = "int", inside = "key_last < a.seqlen_k",
%                          names = places.of, all_heads = true,
%                          searched = mask.searched "q"
%                            and "a.searched[batch * a.key_tiles.number + key_tile]" }
% local seen = mask.searched "q" and text.names_with(position, { eager = true }) or position
% local begin, finish = walk.runs[1].from, walk.runs[#walk.runs].to
% include "sm80/prelude.cu.lua"

% include "sm80/tile.cu.lua"

% include "sm80/products.cu.lua"

% include "sm80/preprocess.cu.lua"

/* ---- Backward ----------------------------------------------------------------------------------
 * With P = exp(S - LSE) rebuilt from Q, K and LSE, and D from the preprocess,
 *   dV = P^T dO,  dP = dO V^T,  dS = P * (dP - D),  dQ = softmax_scale * dS K,
 *   dK = softmax_scale * dS^T Q
 * (Dao et al., arXiv:2205.14135, algorithm 4). Keys are the outer loop: dK and dV of a key tile
 * stay in registers while all queries of all heads of the group pass by, so that nothing is added
 * to them in memory and K, V, dK, dV are never expanded. dQ is summed in memory in f32, in the
 * order in which fragments lie in registers.
 *
% if det then
 * Grid: key tiles x heads_kv x batch, all in x.
% else
 * Grid: key tiles x heads_kv x batch, all in x. Tiles of one head are neighbours, since they read
 * the same Q and dO.
% end
 */

#define MINUS_INFINITY __uint_as_float(0xff800000u)

/* Shared memory. */
enum {
  Q_BYTES = 16 * ${tiles.chunks_qk} * QUERIES,
  DOUT_BYTES = 16 * ${tiles.chunks_v} * QUERIES,
  STATISTICS_BYTES = 2 * 4 * QUERIES, /* LSE and D */
  K_TILE = 0, /* at the end dK */
  V_TILE = K_TILE + 16 * ${tiles.chunks_qk} * KEYS, /* at the end dV */
  Q_TILES = V_TILE + 16 * ${tiles.chunks_v} * KEYS,
% if two then
  DOUT_TILES = Q_TILES + 2 * Q_BYTES, /* two of each, in turn */
  P_TILE = DOUT_TILES + 2 * DOUT_BYTES,
% else
  DOUT_TILES = Q_TILES + Q_BYTES,
  P_TILE = DOUT_TILES + DOUT_BYTES,
% end
  DS_TILE = P_TILE + 2 * QUERIES * KEYS,
% if det then
  STATISTICS = DS_TILE + 2 * QUERIES * KEYS,
  TICKET = STATISTICS + ${tiles.stages} * STATISTICS_BYTES /* which block this is, in the order of start */
% else
  STATISTICS = DS_TILE + 2 * QUERIES * KEYS
% end
};

enum { DQ_FLOATS = ${tiles.dq_floats} }; /* of dQ's sum for a query tile */

/* Where a thread's floats begin in there. */
DEVICE int dq_place(unsigned thread) { return thread / 32 * ${dq_of_warp} + ${dq_lane}; }

% -- A warp's part of dV, dK or dQ, and where its threads begin in the operands.
% local function part_of(name, left, place_right)
%   local part = tiles[name]
DEVICE int ${name}_row(unsigned thread) { return thread / 32 % ${part.rows} * ${16 * part.row_tiles}; }
DEVICE int ${name}_pair(unsigned thread) { return thread / ${32 * part.rows}; }

DEVICE unsigned ${name}_left(unsigned thread) {
  const int t = thread % 32;
  return ${left};
}

DEVICE unsigned ${name}_right(unsigned thread) {
  const int t = thread % 32;
  return ${place_right}(t % 16, 2 * ${name}_pair(thread) + t / 16);
}
% end
% local s, dv, dk, dq = tiles.s, tiles.dv, tiles.dk, tiles.dq
% local function transposed(name)
%   return string.format("%s(t %% 8 + t / 16 * 8, %s_row(thread) / 8 + t / 8 %% 2)", place_p, name)
% end
/* A warp's part of dV and dK: ${16 * dv.row_tiles} and ${16 * dk.row_tiles} keys x one pair of 8 columns in ${dv.cols} and ${dk.cols}; of dQ:
 * ${16 * dq.row_tiles} queries x one pair in ${dq.cols}. Where a thread begins in their left and right operands is found
 * anew for each tile, since S and dP need the registers. */
${capture(part_of, "dv", transposed "dv", place_v)}

${capture(part_of, "dk", transposed "dk", place_qk)}

${capture(part_of, "dq", place_p .. "(dq_row(thread) + t % 16, t / 16)", place_qk)}

/* Starts copying LSE and D of a query tile from row `first` on, one after the other. Rows past
 * seqlen_q become those of a row that saw no key. */
DEVICE void load_statistics(unsigned to, const backward_args &a, unsigned head, int first) {
  const unsigned thread = thread_index();
  const int row = first + thread;
  if (thread >= QUERIES)
    return;
  to += 4 * thread;
  if (row < a.seqlen_q) {
    const unsigned long long at = (unsigned long long)head * (unsigned)a.seqlen_q + row;
    copy_async_float(to, a.lse + at);
    copy_async_float(to + 4 * QUERIES, a.d + at);
  } else {
    store_shared(to, 0xff800000u);
    store_shared(to + 4 * QUERIES, 0);
  }
}

/* Starts copying all that is wanted of a query tile. */
% if two then
DEVICE void start_queries(const backward_args &a, unsigned memory, unsigned head, int tile,
                          int stage) {
% else
DEVICE void start_queries(const backward_args &a, unsigned memory, unsigned head, int tile) {
% end
% local function at(name) return two and string.format(" + stage * %s_BYTES", name) or "" end
  load_${tiles.q.shape}(memory + Q_TILES${at "Q"},
      rows_of(a.q, a.heads_q, anew(head)), a.q.stride_seq, tile * QUERIES, a.seqlen_q);
  load_${tiles.dout.shape}(memory + DOUT_TILES${at "DOUT"},
      rows_of(a.dout, a.heads_q, anew(head)), a.dout.stride_seq, tile * QUERIES, a.seqlen_q);
  load_statistics(memory + STATISTICS${at "STATISTICS"}, a, anew(head), tile * QUERIES);
}

/* A number that is the same in the whole warp: said so, it stays out of the threads' registers. */
DEVICE unsigned uniform(unsigned x) { return __shfl_sync(0xffffffffu, x, 0); }

/* -LSE as an exponent of 2, from the bits of LSE: were they a float's, the compiler would compare
 * floats, and options change that. A row that saw no key has the LSE -inf and gets -inf, which
 * makes its P 0. */
DEVICE float minus_exponent(unsigned lse) {
  if (lse == 0xff800000u)
    return MINUS_INFINITY;
  return multiply(__uint_as_float(lse), -1.44269504f); /* log2(e) */
}

DEVICE bool is_zero(float x) { return __float_as_uint(x) == 0; }

/* Puts 16 x 8 of P or dS, rounded, where the products find them. */
DEVICE void store_fragment(unsigned lane_place, int i, int j, const float (&c)[4]) {
  store_shared(${moved_p}(lane_place, 16 * i, j), pack(c[0], c[1]));
  store_shared(${moved_p}(lane_place, 16 * i + 8, j), pack(c[2], c[3]));
}
% if det then

/* dQ is summed in one order, key tiles descending: a block adds to a query tile only when the block
 * of the next key tile has passed that query tile, which it tells by a counter of turns: query
 * tiles of all heads of the group, counted in order. Blocks take their key tiles in the order in
 * which they start, so a block waits only for blocks that have started. One thread speaks for its
 * block, beside a __syncthreads() that is there anyway; the ticket stays in shared memory. */

/* The counter of the block that drew the ticket; after it comes that of the next key tile. */
DEVICE int *turns_of(const backward_args &a, unsigned ticket) {
  const unsigned row = divide(ticket, a.pairs), pair = ticket - row * a.pairs.number;
  return a.turns + 1 + (long long)(pair + 1) * a.key_tiles.number - 1 - row;
}

DEVICE void await_turn(const backward_args &a, unsigned memory, int turn) {
  const unsigned ticket = load_shared_word(memory + TICKET);
  if (ticket < a.pairs.number) /* the last key tile waits for none */
    return;
  const int *next = turns_of(a, ticket) + 1;
  while (load_acquire(next) < turn) {
  }
}

DEVICE void pass_turn(const backward_args &a, unsigned memory, int turn) {
  store_release(turns_of(a, load_shared_word(memory + TICKET)), turn);
}
% end
% local next_stage = two and ", stage ^ 1" or ""
% local function start_next()
%   if spec.group == 1 then
if (tile + 1 < ${finish})
  start_queries(a, memory, head, tile + 1${next_stage});
%   else
const int next = tile + 1 < ${finish} ? tile + 1 : ${begin};
const unsigned next_head = tile + 1 < ${finish} ? head : head + 1;
if (next_head < (anew(pair) + 1) * GROUP)
  start_queries(a, memory, next_head, next${next_stage});
%   end
commit_copies();
% end
% -- Work on the scores, a share of it beside each step of a product.
% local s_rows = tiles.s.row_tiles
% local function beside(steps, fragments, body, store)
%   local share = (fragments + steps - 1) // steps
%   if share == 1 then
%     local some = steps > fragments and string.format("if (step < %d) ", fragments) or ""
${some}{
  const int i = step % ${s_rows}, j = step / ${s_rows};
%   else
%     local first = steps > 1 and share .. " * step + " or ""
#pragma unroll
for (int m = 0; m < ${share}; ++m) {
  const int n = ${first}m, i = n % ${s_rows}, j = n / ${s_rows};
%     if share * steps > fragments then
  if (n >= ${fragments})
    break;
%     end
%   end
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    ${capture(body)}
  }
  ${capture(store)}
}
% end
% local function probability(masked, from_part)
%   if (masked and not mask.trivial) or score.needs_positions then
const int q_position = tile * QUERIES + shift + first_row + 16 * i + e / 2 * 8;
%   end
%   if masked or score.needs_positions then
const int k_position = key_first + first_key${from_part} + 8 * j + e % 2;
%   end
%   if not score.identity then
s[i][j][e] = multiply(s[i][j][e], a.softmax_scale);
%   end
%   if not score.identity then
${score.lines(position, factor and "derivative")}
%   end
s[i][j][e] = multiply_add(s[i][j][e], a.exponent_scale, minus_lse[i][e / 2]);
s[i][j][e] = exp2_approx(minimum(s[i][j][e], 0.0f)); /* rounding takes no P above 1 */
%   if masked then
${text.wrap("if (!(" .. mask.predicate(seen) .. "))")}
  s[i][j][e] = 0.0f;
%   end
% end
% local function gradient(masked)
ds[i][j][e] = subtract(ds[i][j][e], d[i][e / 2]);
%   if factor then
ds[i][j][e] = multiply(ds[i][j][e], derivative);
%   end
%   if masked or factor then
ds[i][j][e] = is_zero(s[i][j][e]) ? 0.0f : multiply(s[i][j][e], ds[i][j][e]);
%   else
ds[i][j][e] = multiply(s[i][j][e], ds[i][j][e]);
%   end
% end
% local function now(name, lane)
%   return two and string.format("%s + stage * %s_BYTES", lane, name) or lane
% end
% local function pair_of(name)
%   return tiles[name].uneven and string.format(", %s_pair(again)", name) or ""
% end
% local function load_of_rows(name, value)
float ${name}[${s_rows}][2];
#pragma unroll
for (int i = 0; i < ${s_rows}; ++i) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
    ${name}[i][h] = ${value};
}
% end
% local function load_minus_lse()
%   local word = "load_shared_word(row_lse + 4 * (16 * i + 8 * h))"
${capture(load_of_rows, "minus_lse", string.format("minus_exponent(%s)", word))}
% end
% local function load_d()
%   local word = "load_shared_word(row_lse + 4 * (QUERIES + 16 * i + 8 * h))"
${capture(load_of_rows, "d", string.format("__uint_as_float(%s)", word))}
% end
% -- P and dS for `keys` keys of the warp, part `part` of them where that is not all.
% local function one_part(masked, keys)
%   local parts, columns = 16 * tiles.s.pairs // keys, keys // 8
%   local function further(amount)
%     return parts > 1 and string.format(" + part * %d", amount) or ""
%   end
%   local lane = "p_lane"
%   if parts > 1 then lane = string.format("%s(p_lane, 0, part * %d)", moved_p, columns) end
%   local function store_p()
store_fragment(P_TILE + ${lane}, i, j, s[i][j]);
%   end
%   local function store_ds()
store_fragment(DS_TILE + ${lane}, i, j, ds[i][j]);
%   end
%   local function p() probability(masked, further(keys)) end
%   local function rest() if factor then p() end gradient(masked) end
%   local function store_rest() if factor then store_p() end store_ds() end
float s[${s_rows}][${columns}][4] = {};
${tiles.product_s.name}(s, Q_TILES, ${now("Q", "s_a")},
    K_TILE, s_b${further(16 * keys * tiles.chunks_qk)});
${capture(load_minus_lse)}
%   if not tiles.late_d then
${capture(load_d)}
%   end
float ds[${s_rows}][${columns}][4] = {}; /* first dP */
#pragma unroll
for (int step = 0; step < ${tiles.product_dp.steps}; ++step) {
  ${tiles.product_dp.name}_step(ds, DOUT_TILES, ${now("DOUT", dp_a)},
      V_TILE, ${dp_b}${further(16 * keys * tiles.chunks_v)}, step);
%   if not factor then
  ${capture(beside, tiles.product_dp.steps, s_rows * columns, p, store_p)}
%   end
}
%   if tiles.late_d then
${capture(load_d)}
%   end
${capture(beside, 1, s_rows * columns, rest, store_rest)}
% end
% local function visit(masked)
wait_copies<0>();
__syncthreads(); /* Q and dO have arrived, and nobody reads those before, P or dS any more */

const unsigned thread = thread_index();
const int first_row = thread / 32 % ${tiles.s.rows} * ${16 * tiles.s.row_tiles} + thread % 32 / 4;
%   if masked or score.needs_positions then
const int first_key = thread / ${32 * tiles.s.rows} * ${16 * tiles.s.pairs} + thread % 4 * 2;
%   end
const unsigned row_lse = ${now("STATISTICS", "memory + STATISTICS + 4 * first_row")};
%   local keys = masked and tiles.masked_part_keys or tiles.part_keys
%   local parts = 16 * tiles.s.pairs // keys
%   if parts > 1 then
#pragma unroll 1
for (int part = 0; part < ${parts}; ++part) { /* all at once take too many registers */
  ${capture(one_part, masked, keys)}
}
%   else
${capture(one_part, masked, keys)}
%   end
%   if det then
const int turn = (head - pair * GROUP) * a.query_tiles + tile + 1;
if (threadIdx.x == 0)
  await_turn(a, memory, turn);
%   end
__syncthreads(); /* P and dS are whole */
%   if det then
if (threadIdx.x == 0) /* late: the additions of the turn before have long arrived */
  pass_turn(a, memory, turn - 1);
%   end

const unsigned again = thread_index();
${tiles.product_dv.name}(dv, P_TILE, memory + dv_left(again),
    DOUT_TILES, ${now("DOUT", "memory + dv_right(again)")}${pair_of "dv"});
%   if two then
${capture(start_next)}
%   else
${tiles.product_dk.name}(dk, DS_TILE, memory + dk_left(again),
    Q_TILES, memory + dk_right(again)${pair_of "dk"});
__syncthreads(); /* nobody reads Q and dO any more */
${capture(start_next)}
%   end
float dq[${tiles.dq.row_tiles}][${2 * tiles.dq.pairs}][4] = {};
${tiles.product_dq.name}(dq, DS_TILE, memory + dq_left(again),
    K_TILE, memory + dq_right(again)${pair_of "dq"});
const unsigned long long tiles_before =
    (unsigned long long)anew(head) * (unsigned)a.query_tiles + tile;
float *dq_sum = a.dq_sum + tiles_before * DQ_FLOATS + dq_place(again);
#pragma unroll
for (int i = 0; i < ${tiles.dq.row_tiles}; ++i) {
#pragma unroll
  for (int j = 0; j < ${2 * tiles.dq.pairs}; ++j) {
%   if tiles.dq.uneven then
    if (dq_pair(again) + ${tiles.dq.cols} * (j / 2) >= ${tiles.chunks_qk // 2})
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

/* Last, while the additions travel. */
${tiles.product_dk.name}(dk, DS_TILE, memory + dk_left(again),
    Q_TILES, ${now("Q", "memory + dk_right(again)")}${pair_of "dk"});
stage ^= 1;
%   end
% end
% -- Puts a warp's part of dK, dV or dQ, rounded, into a tile that leaves by rows.
% local function put(values, name, tile, place, chunks, scale)
%   local grid = tiles[name]
const unsigned to = memory + ${tile} +
    ${place}(${name}_row(thread) + thread % 32 / 4, 2 * ${name}_pair(thread)) + thread % 4 * 4;
#pragma unroll
for (int i = 0; i < ${grid.row_tiles}; ++i) {
#pragma unroll
  for (int j = 0; j < ${2 * grid.pairs}; ++j) {
%   if grid.uneven then
    if (${name}_pair(thread) + ${grid.cols} * (j / 2) >= ${chunks // 2})
      continue;
%   end
#pragma unroll
    for (int h = 0; h < 2; ++h) {
%   if scale then
      const float x0 = multiply(${values}[i][j][2 * h], a.softmax_scale);
      const float x1 = multiply(${values}[i][j][2 * h + 1], a.softmax_scale);
%   else
      const float x0 = ${values}[i][j][2 * h], x1 = ${values}[i][j][2 * h + 1];
%   end
      const int chunk = ${2 * grid.cols} * (j / 2) + j % 2;
      store_shared(moved${chunks}(to, 16 * i + 8 * h, chunk), pack(x0, x1));
    }
  }
}
% end

% if mask.searched "q" then
%   include "gpu_search.cu.lua"

% end
extern "C" __global__ void __launch_bounds__(THREADS, ${tiles.blocks})
${spec.name}_main(const __grid_constant__ backward_args a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const unsigned memory = (unsigned)__cvta_generic_to_shared(shared);

% if det then
  if (threadIdx.x == 0)
    store_shared(memory + TICKET, draw_ticket(a.turns));
  __syncthreads();
  const unsigned ticket = uniform(load_shared_word(memory + TICKET));
  const unsigned row = uniform(divide(ticket, a.pairs));
  const unsigned pair = ticket - row * a.pairs.number; /* of batch x heads_kv */
  const int key_tile = a.key_tiles.number - 1 - row;
% else
  const unsigned pair = uniform(divide(blockIdx.x, a.key_tiles)); /* of batch x heads_kv */
  const int key_tile = blockIdx.x - pair * a.key_tiles.number;
% end
  const int key_first = key_tile * KEYS;
% if walk.setup:find("key_last") then
  const int key_last = key_first + KEYS - 1;
% end
% if positions then

  /* Positions are on the key axis: the last query stands at the last key. */
  const int shift = a.seqlen_k - a.seqlen_q;
% end
% local said = mask.predicate(position) .. (score.identity and "" or score.text(position))
%     .. (factor and score.derivative_text(position) or "")
% local of_pair = { "batch", "const int batch = divide(pair, a.heads_kv);" }
% local of_head = score.declared({ places.declare[2] }, uniforms, said)
  ${score.declared({ of_pair }, uniforms, walk.setup, said, of_head)}
  ${walk.setup}

% if tiles.q.zero_fill then
  clear_${tiles.k.shape}(memory + K_TILE);
  clear_${tiles.q.shape}(memory + Q_TILES);
%   if two then
  clear_${tiles.q.shape}(memory + Q_TILES + Q_BYTES);
%   end
% end
% if tiles.v.zero_fill then
  clear_${tiles.v.shape}(memory + V_TILE);
  clear_${tiles.dout.shape}(memory + DOUT_TILES);
%   if two then
  clear_${tiles.dout.shape}(memory + DOUT_TILES + DOUT_BYTES);
%   end
% end
  load_${tiles.k.shape}(memory + K_TILE, rows_of(a.k, a.heads_kv, pair), a.k.stride_seq,
      key_first, a.seqlen_k);
  load_${tiles.v.shape}(memory + V_TILE, rows_of(a.v, a.heads_kv, pair), a.v.stride_seq,
      key_first, a.seqlen_k);
  if (${begin} < ${finish})
    start_queries(a, memory, pair * GROUP, ${begin}${two and ", 0" or ""});
  commit_copies();

  /* A warp's part of S and dP, ${16 * s.row_tiles} queries x ${16 * s.pairs} keys, and where lane t begins. */
  const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int s_row = warp % ${s.rows} * ${16 * s.row_tiles};
  const int s_key = warp / ${s.rows} * ${16 * s.pairs};
  const unsigned s_a = memory + ${place_qk}(s_row + t % 16, t / 16);
  const unsigned s_b = memory + ${place_qk}(s_key + t % 8 + t / 16 * 8, t / 8 % 2);
% if not alike then
  const unsigned dp_a = memory + ${place_v}(s_row + t % 16, t / 16);
  const unsigned dp_b = memory + ${place_v}(s_key + t % 8 + t / 16 * 8, t / 8 % 2);
% end
  const unsigned p_lane = memory + ${place_p}(s_row + t / 4, s_key / 8) + t % 4 * 4;

  float dk[${dk.row_tiles}][${2 * dk.pairs}][4] = {}, dv[${dv.row_tiles}][${2 * dv.pairs}][4] = {};
% if two then
  int stage = 0;
% end
% local function walk_queries()
${of_head}
${uniforms}
%   if det and begin ~= "0" then
%     if spec.group > 1 then
__syncthreads(); /* the additions for the head before are on their way */
%     end
if (threadIdx.x == 0) { /* tiles before the first count as passed */
  const int skipped = (head - pair * GROUP) * a.query_tiles + ${begin};
  await_turn(a, memory, skipped);
  pass_turn(a, memory, skipped);
}
%   end
%   for _, run in ipairs(walk.runs) do

#pragma unroll 1
for (int tile = ${run.from}; tile < ${run.to}; ++tile) {
  ${capture(visit, run.masked)}
}
%   end
% end
% if spec.group == 1 then
  const unsigned head = pair;
  ${capture(walk_queries)}
% else

#pragma unroll 1
  for (unsigned head = pair * GROUP; head < (pair + 1) * GROUP; ++head) {
    ${capture(walk_queries)}
  }
% end

  wait_copies<0>();
  __syncthreads(); /* nobody reads K and V any more */
% if det then
  if (threadIdx.x == 0) { /* the last turn, and those after the last tile that this block visits */
    await_turn(a, memory, GROUP * a.query_tiles);
    pass_turn(a, memory, GROUP * a.query_tiles);
  }
% end
  const unsigned thread = thread_index();
  {
    ${capture(put, "dk", "dk", "K_TILE", place_qk, tiles.chunks_qk, true)}
  }
  {
    ${capture(put, "dv", "dv", "V_TILE", place_v, tiles.chunks_v, false)}
  }
  __syncthreads();
  store_${tiles.k.shape}(rows_of(a.dk, a.heads_kv, anew(pair)), a.dk.stride_seq, key_first,
      a.seqlen_k, memory + K_TILE);
  store_${tiles.v.shape}(rows_of(a.dv, a.heads_kv, anew(pair)), a.dv.stride_seq, key_first,
      a.seqlen_k, memory + V_TILE);
}

/* ---- Conversion --------------------------------------------------------------------------------
 * dQ = softmax_scale * its sum, rounded, from the order of the fragments to rows.
 *
 * Grid: query tiles x heads_q x batch, all in x.
 */
extern "C" __global__ void __launch_bounds__(THREADS)
${spec.name}_convert(const __grid_constant__ convert_args a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const unsigned memory = (unsigned)__cvta_generic_to_shared(shared);
  enum { Q_TILE = 0 };
  const unsigned head = divide(blockIdx.x, a.query_tiles);
  const int row_first = (blockIdx.x - head * a.query_tiles.number) * QUERIES;

  const unsigned thread = threadIdx.x;
  const float *dq_sum = a.dq_sum + (long long)blockIdx.x * DQ_FLOATS + dq_place(threadIdx.x);
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
  ${capture(put, "dq", "dq", "Q_TILE", place_qk, tiles.chunks_qk, true)}
  __syncthreads();
  store_${tiles.q.shape}(rows_of(a.dq, a.heads_q, head), a.dq.stride_seq, row_first,
      a.seqlen_q, memory + Q_TILE);
}
% if #score.graded > 0 then
%   include "gpu_gradients.cu.lua"
% end
