% -- Attention forward with wgmma and TMA: one producer warpgroup, several consumers.
% local mask, score = require "mask", require "score"
% local text = require "expr_text"
% local scores = require "sm90.scores_fwd"
% local places, position, uniforms = scores.names, scores.position, scores.uniforms
% local position_inside = text.names_with(position, { key = "k_position" })
% local position_in_last = text.names_with(position, { seqlen_k = "args.seqlen_k" })
% local q_needed = not mask.trivial and not mask.searched "k"
%     or score.needs_positions and scores.text:find("q_position")
% local shifted = not mask.trivial or q_needed
% include "sm90/prelude.cu.lua"

/* Attention forward: O = softmax(S) V and LSE, S = softmax_scale * Q K^T, with the online softmax
 * (Milakov and Gimelshein, arXiv:1805.02867; Dao et al., arXiv:2205.14135).
 *
 * A block takes query tiles, one after the other. Its first warpgroup is the producer: one thread
 * walks the key tiles, last to first, and has TMA copy Q, K and V into rings of buffers. Every
 * other warpgroup is a consumer and owns 64 rows: S, P and O stay in its registers, and S of the
 * next key tile is under way together with O += P V of this one.
 *
 * A lane holds two rows, lane / 4 and 8 below it, of its warp's 16. Of a wgmma accumulator d,
 * d[4 j + 2 row + e] is in column 8 j + 2 (lane % 4) + e; a left operand from registers has the
 * same order, so that P needs no exchange between lanes.
 */

/* What the producer says of a tile, beside its Q. */
struct tile_work {
  int row_first, head, batch;
  int key_tile_begin, key_tile_end; /* what it loads; begin < 0: no tile is left */
% if mask.searched "k" then
  int gap_begin, gap; /* key tiles that nobody needs, and that key_tile does not count */
% end
};
% if mask.searched "k" then

/* A key tile without those of the gap, and the other way round. */
DEVICE int without_gap(int tile, const tile_work &work) {
  return tile <= work.gap_begin ? tile : max(tile - work.gap, work.gap_begin);
}
DEVICE int beyond_gap(int tile, const tile_work &work) {
  return tile < work.gap_begin ? tile : tile + work.gap;
}
% end

/* ---- Products -------------------------------------------------------------------------------- */

/* S = Q K^T, 16 columns a step; TMA has filled columns past DIM_QK with zeros. */
% if tiles.q_shared then
template <int count> DEVICE void start_scores(float (&s)[count], unsigned q, unsigned k) {
  enum { Q_CHUNK = ROWS * CHUNK_ROW, K_CHUNK = 2 * count * CHUNK_ROW };
#pragma unroll
  for (int step = 0; step < (DIM_QK + 15) / 16; ++step) {
    const int chunk = step / 4, inside = step % 4 * 32;
    wgmma_scores(s, describe(q + (chunk * Q_CHUNK + inside) / 16),
                 describe(k + (chunk * K_CHUNK + inside) / 16), step > 0);
  }
  wgmma_commit();
}
%   if tiles.q_registers then

/* The same with Q in registers. */
%   end
% end
% if tiles.q_registers then
template <int count>
DEVICE void start_scores(float (&s)[count], const unsigned (&q)[Q_WORDS], unsigned k) {
  enum { K_CHUNK = 2 * count * CHUNK_ROW };
#pragma unroll
  for (int step = 0; step < Q_WORDS / 4; ++step)
    wgmma_scores(s, q + 4 * step, describe(k + (step / 4 * K_CHUNK + step % 4 * 32) / 16),
                 step > 0);
  wgmma_commit();
}

/* Q of the warp's rows from its tile, as left operand. */
DEVICE void load_queries(unsigned (&q)[Q_WORDS], unsigned tile) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int step = 0; step < Q_WORDS / 4; ++step) {
    const int unit = step % 4 * 2 + lane / 16;
    load_matrices(q + 4 * step, tile + (step / 4 * ROWS + row) * CHUNK_ROW + (unit ^ row % 8) * 16);
  }
}
% end

/* O += P V, 16 keys a step; O = P V at the first key tile. */
template <int count>
DEVICE void start_output(float (&o)[DIM_V / 2], const unsigned (&p)[count], unsigned v,
                         bool first) {
#pragma unroll
  for (int step = 0; step < count / 4; ++step)
    wgmma_output(o, p + 4 * step, describe(v + step * 16 * CHUNK_ROW / 16), step > 0 || !first);
  wgmma_commit();
}

% include "sm90/fwd_softmax.cu.lua"

% include "sm90/fwd_output.cu.lua"
% if tiles.dynamic then

/* ---- ${spec.name}_clear ---- */

/* Before the main kernel draws tiles from the counter. */
extern "C" __global__ void
${spec.name}_clear(const __grid_constant__ clear_args args) {
  launch_next();
  if (threadIdx.x == 0)
    *args.drawn = 0;
}
% end
%
% include "sm90/fwd_scores.cu.lua"
%
% -- Warpgroups issue their products in turns.
% local function take_turn()
named_barrier_sync(1 + consumer, 256);
% end
% local function pass_turn()
named_barrier_arrive(1 + next_consumer, 256);
% end
%
% -- One key tile: its S under way together with O += P V of the tile before.
% local function step(entry, kept)
const ring_place before = ring;
advance<STAGES>(ring);
wait(k_full, ring);
%   if entry.turns then
${capture(take_turn)}
%   end
wgmma_fence();
start_scores(s, q, uniform(k + ring.buffer * (K_BYTES / 16)));
wait(v_full, before);
wgmma_fence();
start_output(o, p, uniform(v + before.buffer * (V_BYTES / 16)), first);
first = false;
%   if entry.turns then
${capture(pass_turn)}
%   end

wgmma_wait<1>(s);
release(k_empty, ring);
%   if kept or not score.identity then
${capture(scores.edit, kept)}
%   end
float sum[2];
%   if kept or entry.every_peak then
const bool raised = raise_peaks(state, s, slope, both);
wgmma_wait<0>(o);
release(v_empty, before);
if (raised)
  correct_output(o, state);
probabilities(p, sum, s, state);
%   else
wgmma_wait<0>(o);
release(v_empty, before);
probabilities(p, sum, s, state);
/* Large sums alone call for new peaks, so that most tiles need no maximum. */
const bool large = exceeds(sum[0], LARGE) || exceeds(sum[1], LARGE);
if (__any_sync(0xffffffffu, large)) {
  const bool asked[2] = {exceeds(quad_maximum(sum[0]), LARGE), exceeds(quad_maximum(sum[1]), LARGE)};
  if (raise_peaks(state, s, slope, asked)) {
    correct_output(o, state);
    probabilities(p, sum, s, state);
  }
}
%   end
add_sums(state, sum);
% end
%
% -- A key tile that holds nothing for this warpgroup's rows.
% local function skip()
wait(k_full, ring);
release(k_empty, ring);
wait(v_full, ring);
release(v_empty, ring);
advance<STAGES>(ring);
% end
%
% local searched
% if mask.searched "k" then
%   local head = require("linear").depends(mask.keep).head
%   local group = head and "(%sbatch * args.heads_q + %shead)" or "%sbatch"
%   local function place(of, i)
%     return string.format("args.searched[%s * args.row_tiles + "
%       .. "min(%srow_first / ROWS + %s, args.row_tiles - 1)]", (group:gsub("%%s", of)), of, i)
%   end
%   searched = { of_block = place("", "i"), of_rows = place("work.", "consumer") }
% end
%
% local function walk_keys(entry, ends_only)
%   return mask.runs { walked = "k", fixed = "q", first = "q_first", last = "q_last",
%                      tile = entry.keys, tiles = "key_tiles", length = "args.seqlen_k",
%                      integer = "int", ends_only = ends_only, names = places,
%                      searched = searched and searched.of_rows }
% end
% local head_kv = spec.group > 1 and "head / GROUP" or "head"
% if mask.searched "k" then
%   include "gpu_search.cu.lua"
% end
% for _, entry in ipairs(tiles.entries) do

/* ---- ${spec.name}_${entry.name} ---- */

extern "C" __global__ void __launch_bounds__(${entry.threads}, 1)
${spec.name}_${entry.name}(
    const __grid_constant__ tensor_map q_map, const __grid_constant__ tensor_map k_map,
    const __grid_constant__ tensor_map v_map, const __grid_constant__ tensor_map o_map,
    const __grid_constant__ forward_args args) {
  enum {
    KEYS = ${entry.keys},     /* of a key tile */
    STAGES = ${entry.stages},    /* buffers of the rings of K and V */
    Q_BUFFERS = ${entry.q_buffers},
    STRIPS = ${entry.strips},    /* chunks of O that a warp may have on their way out */
    Q_BYTES = QK_CHUNKS * ROWS * CHUNK_ROW, /* of one consumer */
    K_BYTES = QK_CHUNKS * KEYS * CHUNK_ROW,
    V_BYTES = V_CHUNKS * KEYS * CHUNK_ROW,
    STRIP = 16 * CHUNK_ROW /* bytes */
  };
  /* The launch may have fewer consumers than the ${entry.warpgroups} that this is compiled for. */
  const int consumers = blockDim.x / 128 - 1;
  const int key_tiles = (args.seqlen_k + KEYS - 1) / KEYS;
% if shifted then
  /* Positions are on the key axis: the last query stands at the last key. */
  const int shift = args.seqlen_k - args.seqlen_q;
% end

  extern __shared__ __align__(1024) unsigned char memory[];
  const unsigned shared = shared_address(memory);
  const unsigned q_full = shared, q_empty = q_full + 8 * Q_BUFFERS;
  const unsigned k_full = q_empty + 8 * Q_BUFFERS, k_empty = k_full + 8 * STAGES;
  const unsigned v_full = k_empty + 8 * STAGES, v_empty = v_full + 8 * STAGES;
  /* Two a Q buffer: consumers look at a tile's until after they have released its Q. */
  tile_work *works = (tile_work *)(memory + ${tiles.barrier_bytes // 2});
  const unsigned k_ring = shared + ${tiles.barrier_bytes}, v_ring = k_ring + STAGES * K_BYTES;
  const unsigned q_ring = v_ring + STAGES * V_BYTES;
  const unsigned strips = q_ring + Q_BUFFERS * consumers * Q_BYTES;

  if (threadIdx.x == 0) {
    for (int i = 0; i < Q_BUFFERS; ++i) {
      mbarrier_init(q_full + 8 * i, 1);
      mbarrier_init(q_empty + 8 * i, 4 * consumers);
    }
    for (int i = 0; i < STAGES; ++i) {
      mbarrier_init(k_full + 8 * i, 1);
      mbarrier_init(k_empty + 8 * i, 4 * consumers);
      mbarrier_init(v_full + 8 * i, 1);
      mbarrier_init(v_empty + 8 * i, 4 * consumers);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  const int warp = uniform(threadIdx.x / 32);

  /* ---- The producer ---- */
  if (warp < 4) {
    registers_give_back<${entry.producer_registers}>();
    if (threadIdx.x > 0)
      return;
    tma_prefetch(q_map);
    tma_prefetch(k_map);
    tma_prefetch(v_map);
    tma_prefetch(o_map);

    /* Of a barrier not yet used, the phase before its first counts as ended. */
    ring_place q_at = {0, 1}, k_at = {0, 1}, v_at = {0, 1};
    const unsigned tiles = args.heads * args.query_tiles;
% if tiles.dynamic then
    bool cleared = false;
% end
    for (unsigned tile = blockIdx.x; tile < tiles;) {
% if tiles.dynamic then
      const unsigned section = tile / (args.section * args.query_tiles);
      const unsigned head_first = section * args.section;
      const unsigned in_section = tile - head_first * args.query_tiles;
      const unsigned width = min(args.section, args.heads - head_first);
      const unsigned row_tile = in_section / width;
      const unsigned any_head = head_first + in_section - row_tile * width;
%   local longest = walk_keys(tiles.entries[1], true).longest
%   local order = longest == "first" and "row_tile" or "(args.query_tiles - 1 - row_tile)"
      const int row_first = ${order} * consumers * ROWS;
% else
      const unsigned any_head = tile / args.query_tiles;
      const int row_first = (tile - any_head * args.query_tiles) * consumers * ROWS;
% end
      const int batch = any_head / args.heads_q, head = any_head - batch * args.heads_q;
% local begin, finish = "work.key_tile_begin", "work.key_tile_end"
% if searched then
      tile_work work = {row_first, head, batch, key_tiles, 0, 0, key_tiles};
      for (int i = 0; i < consumers; ++i) { /* gap: first its end */
        ${text.wrap("const tile_bounds &found = " .. searched.of_block .. ";")}
        if (found.begin >= found.end)
          continue;
        work.key_tile_begin = min(work.key_tile_begin, found.begin);
        work.key_tile_end = max(work.key_tile_end, found.end);
        work.gap_begin = max(work.gap_begin, found.gap_begin);
        work.gap = min(work.gap, found.gap_end);
      }
      work.gap = max(work.gap - work.gap_begin, 0);
      work.key_tile_end = without_gap(work.key_tile_end, work);
% else
% local walk = walk_keys(entry, true)
% begin, finish = walk.runs[1].from, walk.runs[1].to
% if walk.setup:find("q_first") then
      const int q_first = row_first + shift;
% end
% if walk.setup:find("q_last") then
      const int q_last = min(row_first + consumers * ROWS, args.seqlen_q) - 1 + shift;
% end
      ${walk.setup}
% end

      wait(q_empty, q_at);
% if searched then
      works[q_at.buffer + Q_BUFFERS * (q_at.parity ^ 1)] = work;
% else
      works[q_at.buffer + Q_BUFFERS * (q_at.parity ^ 1)] =
          {row_first, head, batch, ${begin}, ${finish}};
% end
      mbarrier_arrive_expect(q_full + 8 * q_at.buffer, consumers * Q_BYTES);
      for (int i = 0; i < consumers; ++i)
        load_tile<QK_CHUNKS>(q_ring + (q_at.buffer * consumers + i) * Q_BYTES, ROWS, q_map,
                             row_first + i * ROWS, head, batch, q_full + 8 * q_at.buffer);
      advance<Q_BUFFERS>(q_at);

      /* V one tile behind K, as they are used. */
      for (int key_tile = ${finish}; key_tile >= ${begin}; --key_tile) {
        if (key_tile > ${begin}) {
          wait(k_empty, k_at);
          mbarrier_arrive_expect(k_full + 8 * k_at.buffer, K_BYTES);
% local above = searched and "beyond_gap(key_tile - 1, work)" or "(key_tile - 1)"
          load_tile<QK_CHUNKS>(k_ring + k_at.buffer * K_BYTES, KEYS, k_map,${searched and "" or " " .. above .. " * KEYS,"}
% if searched then
                               ${above} * KEYS, ${head_kv}, batch,
                               k_full + 8 * k_at.buffer);
% else
                               ${head_kv}, batch, k_full + 8 * k_at.buffer);
% end
          advance<STAGES>(k_at);
        }
        if (key_tile < ${finish}) {
          wait(v_empty, v_at);
          mbarrier_arrive_expect(v_full + 8 * v_at.buffer, V_BYTES);
% local here = searched and "beyond_gap(key_tile, work)" or "key_tile"
          load_tile<V_CHUNKS>(v_ring + v_at.buffer * V_BYTES, KEYS, v_map,${searched and "" or " " .. here .. " * KEYS,"}
% if searched then
                              ${here} * KEYS, ${head_kv}, batch,
                              v_full + 8 * v_at.buffer);
% else
                              ${head_kv}, batch, v_full + 8 * v_at.buffer);
% end
          advance<STAGES>(v_at);
        }
      }
% if tiles.dynamic then

      if (args.drawn) {
        if (!cleared)
          launch_wait(); /* for the launch that clears the counter */
        cleared = true;
        tile = gridDim.x + draw_ticket(args.drawn);
      } else {
        tile += gridDim.x;
      }
% else
      tile += gridDim.x;
% end
    }
    wait(q_empty, q_at);
    works[q_at.buffer + Q_BUFFERS * (q_at.parity ^ 1)].key_tile_begin = -1;
    mbarrier_arrive(q_full + 8 * q_at.buffer);
    return;
  }

  /* ---- A consumer ---- */
  registers_take<${entry.consumer_registers}>();
  const int consumer = warp / 4 - 1, lane = threadIdx.x % 32;
% if entry.turns then
  const int next_consumer = consumer + 1 < consumers ? consumer + 1 : 0;
  if (next_consumer == 0)
    named_barrier_arrive(1, 256); /* the first turn is the first consumer's */
% end
  const int thread_row = warp % 4 * 16 + lane / 4, thread_column = lane % 4 * 2;
  const float slope = ${scores.factor and "multiply(" .. scores.factor .. ", LOG2_E)" or "LOG2_E"};
  const unsigned k = tile_word(k_ring, 16), v = tile_word(v_ring, KEYS * CHUNK_ROW);
  const unsigned warp_strips = strips + (warp - 4) * STRIPS * STRIP;

  ring_place ring = {0, 0}, q_at = {0, 0};
  for (;;) {
    wait(q_full, q_at);
    const tile_work &work = works[q_at.buffer + Q_BUFFERS * q_at.parity];
    if (work.key_tile_begin < 0)
      break;
    const unsigned q_tile = q_ring + (q_at.buffer * consumers + consumer) * Q_BYTES;
% if entry.q_registers then
    unsigned q[Q_WORDS];
    load_queries(q, q_tile);
    __syncwarp();
    release(q_empty, q_at);
% else
    const unsigned q = uniform(tile_word(q_tile, 16));
% end
    const int rows = min(ROWS, args.seqlen_q - work.row_first - consumer * ROWS);
% local mask_text = not mask.trivial and not mask.searched "k" and mask.predicate(position) or ""
% local said = uniforms .. scores.text .. mask_text
%     .. (score.sink and text.inline(score.sink, places) or "")
%     .. (searched and "" or walk_keys(entry).setup)
%   for _, name in ipairs { "head", "batch" } do
%     if text.mentions(said, name) then
    const int ${name} = work.${name};
%     end
%   end
    ${uniforms}
% if q_needed then
    const int q_first = work.row_first + consumer * ROWS + shift;
    const int thread_q = q_first + thread_row;
% end
% local walk = walk_keys(entry)
% local runs = walk.runs
% local begin, finish = runs[1].from, runs[#runs].to
% if walk.setup:find("q_last") then
    const int q_last = q_first + rows - 1;
% end
% if searched then
    ${(walk.setup:gsub("= found%.([%a_]+)", "= without_gap(found.%1, work)"))}
% else
    ${walk.setup}
% end

    float s[KEYS / 2], o[DIM_V / 2];
    unsigned p[KEYS / 4];
    row_state state = {{MINUS_INFINITY, MINUS_INFINITY}, {slope, slope}, {LARGEST, LARGEST}};
    const bool both[2] = {true, true};
    bool first = true;
    int key_tile = work.key_tile_end - 1;

    /* Tiles that other consumers need, this one not. */
% if begin == "0" then
    const int own_end = rows > 0 ? ${finish} : 0;
% else
    const int own_end = rows > 0 && ${begin} < ${finish} ? ${finish} : work.key_tile_begin;
% end
    for (; key_tile >= own_end; --key_tile) {
% if entry.turns then
      if (key_tile > work.key_tile_begin) {
        ${capture(take_turn)}
        ${capture(pass_turn)}
      }
% end
      ${capture(skip)}
    }

    const bool any_key = key_tile >= work.key_tile_begin;
    if (any_key) {
      wait(k_full, ring);
      wgmma_fence();
      start_scores(s, q, uniform(k + ring.buffer * (K_BYTES / 16)));
      wgmma_wait<0>(s);
      release(k_empty, ring);
% if not mask.trivial then
      ${capture(scores.edit, position_in_last)}
% else
%   if not score.identity then
      ${capture(scores.edit)}
%   end
      if ((key_tile + 1) * KEYS > args.seqlen_k) {
        ${capture(scores.edit, position_in_last, true)}
      }
% end
      raise_peaks(state, s, slope, both);
      probabilities(p, state.sum, s, state);
      --key_tile;
% for i = #runs, 1, -1 do
      for (; key_tile >= ${runs[i].from}; --key_tile) {
        ${capture(step, entry, runs[i].masked and position_inside)}
      }
% end
    }
% if not entry.q_registers then
    release(q_empty, q_at);
% end
    if (any_key) {
      wait(v_full, ring);
      wgmma_fence();
      start_output(o, p, uniform(v + ring.buffer * (V_BYTES / 16)), first);
      wgmma_wait<0>(o);
      release(v_empty, ring);
      advance<STAGES>(ring);
    }
% if begin ~= "0" then
    for (; key_tile >= work.key_tile_begin; --key_tile) {
% if entry.turns then
      ${capture(take_turn)}
      ${capture(pass_turn)}
% end
      ${capture(skip)}
    }
% end
    advance<Q_BUFFERS>(q_at);

    const int row_first = work.row_first + consumer * ROWS;
    float *lse = args.lse + ((long long)work.batch * args.heads_q + work.head) * args.seqlen_q;
    float inverse[2];
% if score.sink then
    ${text.wrap("const float sink = multiply(" .. text.inline(score.sink, position) .. ", LOG2_E);")}
% end
    #pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float sum = quad_sum(state.sum[row]);
      const int q_row = row_first + thread_row + 8 * row;
% if score.sink then
      /* The sink joins the sum, both below the larger of peak and sink. */
      const float peak = multiply(state.peak[row], slope);
      const float top = maximum(maximum(peak, sink), -LARGEST);
      const float lowered = exp2_approx(subtract(peak, top));
      const float total = multiply_add(sum, lowered, exp2_approx(subtract(sink, top)));
      inverse[row] = is_zero(sum) ? 0.0f : multiply(lowered, reciprocal(total));
      if (lane % 4 == 0 && q_row < args.seqlen_q)
        lse[q_row] = is_zero(total) ? MINUS_INFINITY : multiply(add(log2_approx(total), top), LN_2);
% else
      inverse[row] = is_zero(sum) ? 0.0f : reciprocal(sum);
      if (lane % 4 == 0 && q_row < args.seqlen_q)
% end
% if score.sink then
% elseif scores.factor then
        lse[q_row] = is_zero(sum) ? MINUS_INFINITY
                                 : multiply_add(state.peak[row], ${scores.factor},
                                                multiply(log2_approx(sum), LN_2));
% else
        lse[q_row] =
            is_zero(sum) ? MINUS_INFINITY : multiply_add(log2_approx(sum), LN_2, state.peak[row]);
% end
    }
    const int strip_row = row_first + warp % 4 * 16;
    #pragma unroll
    for (int chunk = 0; chunk < V_CHUNKS; ++chunk) {
      const unsigned strip = warp_strips + chunk % STRIPS * STRIP;
      if (lane == 0)
        tma_store_wait_read<STRIPS - 1>();
      __syncwarp();
      #pragma unroll
      for (int column = chunk * CHUNK; column < DIM_V && column < (chunk + 1) * CHUNK; column += 16)
% if spec.dim_v % 16 == 0 then
        store_columns(strip, column % CHUNK, o + column / 2, inverse);
% elseif spec.dim_v < 16 then
        store_last_columns(strip, column % CHUNK, o + column / 2, inverse);
% else
        if (column + 16 <= DIM_V)
          store_columns(strip, column % CHUNK, o + column / 2, inverse);
        else
          store_last_columns(strip, column % CHUNK, o + column / 2, inverse);
% end
      proxy_fence();
      __syncwarp();
      if (lane == 0) {
        if (strip_row < args.seqlen_q)
          tma_store(o_map, chunk * CHUNK, strip_row, work.head, work.batch, strip);
        tma_store_commit();
      }
    }
  }
  if (lane == 0)
    tma_store_wait_read<0>();
}
% end
