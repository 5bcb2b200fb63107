% -- Attention backward on Hopper: preprocess, then one block a key tile, then dQ's conversion.
% local mask = require "mask"
% local walk = require "sm90.walk_bwd"
% local text = require "expr_text"
% local det, wide, grouped = spec.deterministic, tiles.wide, spec.group > 1
% include "sm90/prelude_bwd.cu.lua"

% include "sm90/preprocess.cu.lua"

/* ---- Backward -----------------------------------------------------------------------------------
 * With P = exp(S - LSE) rebuilt from Q, K and LSE, and D from the preprocess,
 *   dV = P^T dO,  dP = dO V^T,  dS = P * (dP - D),  dQ = softmax_scale * dS K,
 *   dK = softmax_scale * dS^T Q
 * (Dao et al., arXiv:2205.14135, algorithm 4). Keys are the outer loop: a block has a key tile,
 * whose dK and dV stay in registers while all queries of all heads of the group pass by, so that K,
 * V, dK and dV are never expanded. dQ is summed in memory in f32, as the accumulators lie.
 *
% if wide then
 * The first warpgroup serves: a thread of warp 0 has TMA bring Q and dO into rings of buffers,
 * warp 3 brings LSE and D. The others, the consumers, each compute S and dP for a part of the keys,
 * and put P and dS into shared memory. Then each computes its columns, in runs of 64, of dV, dK and
 * dQ, all transposed: columns x keys, or columns x queries. dQ is added to memory from registers.
%   if det then
 * Warp 1 looks whose turn it is, and warp 2 passes turns on, lest memory hold the consumers up.
%   end
% else
 * The first warpgroup serves: a thread of warp 0 has TMA bring Q and dO into rings of two buffers,
 * warps 1 and 2 have dQ of one consumer each added to memory, warp 3 brings LSE and D. The other
 * two, the consumers, own 64 keys each. They compute S and dP transposed, keys x queries, so that
 * P and dS are in registers as the left operands of dV and dK; only dS goes through shared memory,
 * for dQ, of which a consumer computes ${tiles.by_rows and "64 queries" or "half the columns"}.
% end
 *
 * A lane holds two rows, lane / 4 and 8 below it, of its warp's 16. Of a wgmma accumulator c,
 * c[4 j + 2 row + e] is in column 8 j + 2 (lane % 4) + e.
 */

enum { /* bytes */
  KEY_CHUNK = KEYS * CHUNK_ROW,
  QUERY_CHUNK = QUERIES * CHUNK_ROW,
  K_BYTES = ${tiles.k_bytes},
  V_BYTES = V_CHUNKS * KEY_CHUNK,
  Q_BYTES = QK_CHUNKS * QUERY_CHUNK,
  DOUT_BYTES = V_CHUNKS * QUERY_CHUNK,
  DS_BYTES = 2 * QUERY_CHUNK
};

enum {
  K_SPLIT = ${tiles.k_split}, /* columns of each of K's chunks */
  K_CHUNKS = ${tiles.k_chunks},
  DOUT_BUFFERS = ${tiles.dout_stages} /* Q has two */
};

/* Where things are in shared memory. */
enum {
  K_FULL = 0, V_FULL = 8, Q_FULL = 16, Q_EMPTY = 32, DOUT_FULL = 48, DOUT_EMPTY = 64, /* barriers */
% if det and wide then
  ADDED = 80, /* barriers of the ring of Q: dQ has been added */
  TURN = 96, /* turns that have come */
% end
% if walk.heads_inside then
  WORK = 264, /* for each buffer of Q, twice the query tile, + 1 if it needs the mask */
% end
% if #tiles.query_terms > 0 then
  /* Twice: -LSE in exponents of 2, then -D, then what the mask says of a query, of a query tile. */
  STATISTICS = 1024,
% else
  STATISTICS = 1024, /* twice: -LSE in exponents of 2, then -D, of a query tile */
% end
  K_TILE = ${tiles.header_bytes},
  V_TILE = K_TILE + K_BYTES,
  Q_TILES = V_TILE + V_BYTES,
  DOUT_TILES = Q_TILES + 2 * Q_BYTES,
% if wide then
  P_TILE = DOUT_TILES + DOUT_BUFFERS * DOUT_BYTES,
  DS_TILE = P_TILE + DS_BYTES
% else
  DS_TILES = DOUT_TILES + DOUT_BUFFERS * DOUT_BYTES,
  DQ_STAGED = DS_TILES + 2 * DS_BYTES
% end
};

#define MINUS_INFINITY __uint_as_float(0xff800000u)
#define LOG2_E 1.44269504f

/* The block's key tile. */
struct key_tile {
  int first; /* key */
  int head_kv, batch;
% if tiles.divided then
  int head; /* the block's first one of Q */
% end
% if det then
  int place; /* among the key tiles of this head, as blocks take them */
  int *turns; /* the block's first counter */
% end
};
% if det then

/* dQ is summed in one order, key tiles in the order in which blocks take them: a block adds its
 * part of a query tile only when the block of the key tile before has passed that query tile, which
 * it tells by a counter of turns: query tiles${grouped and ", and heads," or ""} are counted as they are visited.
 * Blocks take their key tiles in the order in which they start, so a block waits only for blocks
 * that started before it.
% if walk.rising then
 * Where the block before skips a query tile that this one visits, all before it do: the first tile
 * and the last never fall from one key tile to the next.
% else
 * A block passes a query tile that it skips when the block before has passed it.
% end
 */

DEVICE void await_turn(const key_tile &at_keys, const int *counter, int turn) {
  if (at_keys.place > 0 && threadIdx.x % 32 == 0)
    while (load_acquire(counter - TURNS) < turn) {
    }
  __syncwarp();
}

% if wide then
DEVICE void pass_turn(int *counter, int turn) {
  if (threadIdx.x % 32 == 0)
    store_release(counter, turn);
  __syncwarp();
}
% else
/* When all that the warp had added has arrived. */
DEVICE void pass_turn(int *counter, int turn) {
  if (threadIdx.x % 32 == 0) {
    bulk_wait();
    proxy_fence_global();
    store_release(counter, turn);
  }
  __syncwarp();
}
% end
% end

% if not require("score").identity then
/* Of a probability. */
DEVICE bool is_zero(float p) { return __float_as_uint(p) == 0; }

% end
/* Of accumulators that no product has written, the value is 0 by selection. */
DEVICE unsigned scaled(const float *c, float scale, bool any) {
  return any ? pack(multiply(c[0], scale), multiply(c[1], scale)) : 0;
}

% include "sm90/convert_sums.cu.lua"

% include(wide and "sm90/bwd_columns.cu.lua" or "sm90/bwd_keys.cu.lua")
% local function load_queries()
%   if not grouped then
const int head = at_keys.head_kv;
%   end
const unsigned q_full = shared + Q_FULL + 8 * at.buffer;
wait(shared + Q_EMPTY, at);
mbarrier_arrive_expect(q_full, Q_BYTES);
load_tile<QK_CHUNKS>(shared + Q_TILES + at.buffer * Q_BYTES, QUERIES, q_map,
                     tile * QUERIES, head, at_keys.batch, q_full);
%   local at = tiles.dout_stages == 2 and "at" or "dout_at"
const unsigned dout_full = shared + DOUT_FULL + 8 * ${at}.buffer;
wait(shared + DOUT_EMPTY, ${at});
mbarrier_arrive_expect(dout_full, DOUT_BYTES);
load_tile<V_CHUNKS>(shared + DOUT_TILES + ${at}.buffer * DOUT_BYTES, QUERIES,
                    dout_map, tile * QUERIES, head, at_keys.batch, dout_full);
%   if walk.heads_inside then
/* What dQ will be added to, so that nothing waits for it behind the first block that does. */
const long long sum = (slot_of(args, at_keys) - at_keys.head_kv) * GROUP + head;
bulk_prefetch(args.dq_sum + (sum * query_tiles + tile) * DQ_FLOATS, 4 * DQ_FLOATS);
%   end
advance<2>(at);
%   if tiles.dout_stages == 1 then
advance<1>(dout_at);
%   end
% end
% local function load_statistics()
%   if not grouped then
const int head = at_keys.head_kv;
%   end
const long long row_0 = ((long long)at_keys.batch * args.heads_q + head) * args.seqlen_q;
float *to = statistics + at.buffer * ${tiles.query_bytes // 4} * QUERIES + lane;
%   if walk.heads_inside then
const bool masked = ${walk.masked == "" and "true" or walk.masked};
%   end
wait(shared + Q_EMPTY, at);
#pragma unroll
for (int i = 0; i < QUERIES; i += 32) {
  const int row = tile * QUERIES + i + lane;
  const bool inside = row < args.seqlen_q;
  const float lse = inside ? args.lse[row_0 + row] : MINUS_INFINITY;
  const float d = inside ? args.d[row_0 + row] : 0.0f;
  /* A row that saw no key gets P = 0, and so do rows past the end. */
  const bool dead = __float_as_uint(lse) == 0xff800000u;
  to[i] = dead ? MINUS_INFINITY : multiply(lse, -LOG2_E);
  to[QUERIES + i] = dead ? 0.0f : multiply(d, -1.0f);
% if #tiles.query_terms > 0 then
%   if walk.heads_inside then
  if (!masked)
    continue;
%   end
  const int q_position = row + args.seqlen_k - args.seqlen_q;
% end
% for number, term in ipairs(tiles.query_terms) do
  ${text.wrap("const " .. term[1] .. " " .. term[2] .. " = " .. term[3] .. ";")}
%   local bits = term[1] == "float" and term[2] or "__int_as_float(" .. term[2] .. ")"
  to[${number + 1} * QUERIES + i] = ${bits};
% end
}
%   if walk.heads_inside then
if (lane == 0)
  ((unsigned *)(memory + WORK))[at.buffer] = 2 * tile + masked;
%   end
__syncwarp();
release(shared + Q_FULL, at);
advance<2>(at);
% end
% -- Beside columns, a warp tells the consumers of turns that have come, and another one tells the
% -- next block of turns that have passed.
% local function watch_turns()
const int turn = ${walk.turn};
await_turn(at_keys, at_keys.turns, turn);
if (lane == 0)
  store_shared_release(shared + TURN, turn);
% end
% local function pass_turns()
wait(shared + ADDED, at);
release(shared + Q_EMPTY, at); /* lest the consumers get two rounds ahead */
pass_turn(at_keys.turns, ${walk.turn});
advance<2>(at);
% end

% if mask.searched "q" then
%   include "gpu_search.cu.lua"

% end
extern "C" __global__ void __launch_bounds__(${tiles.threads}, 1)
${spec.name}_main(const __grid_constant__ tensor_map q_map,
    const __grid_constant__ tensor_map k_map, const __grid_constant__ tensor_map v_map,
    const __grid_constant__ tensor_map dout_map, const __grid_constant__ tensor_map dk_map,
    const __grid_constant__ tensor_map dv_map, const __grid_constant__ backward_args args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const unsigned shared = shared_address(memory);
  float *statistics = (float *)(memory + STATISTICS);
  const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;

  if (threadIdx.x == 0) {
    mbarrier_init(shared + K_FULL, 1);
    mbarrier_init(shared + V_FULL, 1);
    for (int i = 0; i < 2; ++i) {
      mbarrier_init(shared + Q_FULL + 8 * i, 2); /* Q; LSE and D */
% if det and wide then
      mbarrier_init(shared + Q_EMPTY + 8 * i, 4 * CONSUMERS + 1); /* and who passes turns */
      mbarrier_init(shared + ADDED + 8 * i, 4 * CONSUMERS);
% else
      mbarrier_init(shared + Q_EMPTY + 8 * i, 4 * CONSUMERS);
% end
      mbarrier_init(shared + DOUT_FULL + 8 * i, 1);
      mbarrier_init(shared + DOUT_EMPTY + 8 * i, 4 * CONSUMERS);
    }
    mbarrier_init_fence();
% if det and wide then
    *(volatile int *)(memory + TURN) = 0;
% end
  }
% if det then
  launch_wait(); /* for cleared counters */
  if (threadIdx.x == 0)
    *(volatile unsigned *)statistics = draw_ticket(args.started);
  __syncthreads();
  const unsigned ticket = *(volatile unsigned *)statistics;
% else
  unsigned ticket = blockIdx.x;
  if (args.ring < args.pairs) { /* it may wait for other blocks: these have started then */
    launch_wait();              /* for cleared counters */
    if (threadIdx.x == 0)
      *(volatile unsigned *)statistics = draw_ticket(args.started);
    __syncthreads();
    ticket = *(volatile unsigned *)statistics;
  }
% end
  __syncthreads();

% local order = det and "those of all heads in turn"
%   or mask.trivial and "head after head" or "of all heads, the longest first"
  /* Key tiles are taken in sections of heads; inside one, ${order}. */
  const int key_tiles = (args.seqlen_k + KEYS - 1) / KEYS;
  const unsigned section_blocks = args.section * (key_tiles + args.converters);
% if tiles.divided then
  const unsigned first_part = ticket / section_blocks * args.section;
  const unsigned inside = ticket % section_blocks;
  const unsigned width = min(args.section, args.pairs * args.parts - first_part);
  const int place = inside / width;
  const int any_part = first_part + inside - place * width;
  const int pair = any_part / args.parts;
% else
  const unsigned first_pair = ticket / section_blocks * args.section;
  const unsigned inside = ticket % section_blocks;
  const unsigned width = min(args.section, args.pairs - first_pair);
  const int place = inside / width;
  const int pair = first_pair + inside - place * width;
% end
  if (place >= key_tiles) {
    convert_sums(args, pair, place - key_tiles, memory);
    return;
  }
  key_tile at_keys;
% local key_tile = tiles.longest_first and "args.order[pair / args.heads_kv * key_tiles + place]"
%     or walk.ascending and "place" or "(key_tiles - 1 - place)"
  at_keys.first = ${key_tile} * KEYS;
  at_keys.batch = pair / args.heads_kv;
  at_keys.head_kv = pair - at_keys.batch * args.heads_kv;
% if tiles.divided then
  at_keys.head = at_keys.head_kv * GROUP + (any_part - pair * args.parts) * args.members;
% end
% if det then
  at_keys.place = place;
  at_keys.turns = args.turns + ((long long)pair * key_tiles + place) * TURNS;
% end

  if (warp < 4) {
    registers_give_back<${tiles.producer_registers}>();
    ring_place at = {0, 1}; /* of an unused barrier, the phase before the first counts as ended */
    if (warp == 0) { /* the same for all lanes: joined with the next, it cost registers */
      if (lane == 0) {
        tma_prefetch(q_map);
        tma_prefetch(dout_map);
        mbarrier_arrive_expect(shared + K_FULL, K_CHUNKS * KEY_CHUNK);
        for (int chunk = 0; chunk < K_CHUNKS; ++chunk)
          tma_load(shared + K_TILE + chunk * KEY_CHUNK, k_map, chunk * K_SPLIT, at_keys.first,
                   at_keys.head_kv, at_keys.batch, shared + K_FULL);
        mbarrier_arrive_expect(shared + V_FULL, V_BYTES);
        load_tile<V_CHUNKS>(shared + V_TILE, KEYS, v_map, at_keys.first, at_keys.head_kv,
                            at_keys.batch, shared + V_FULL);
% if tiles.dout_stages == 1 then
        ring_place dout_at = {0, 1};
% end
        ${walk.heads_inside and walk.ends_counted or walk.ends}
        ${walk.open}
          ${capture(load_queries)}
        }
      }
    } else if (warp == 3) {
% if not det then
      launch_wait(); /* for D */
% end
% if wide then
      await_memory(args, at_keys); /* before the consumers get to add anything */
% end
      ${walk.heads_inside and walk.ends_and_runs or walk.ends}
      ${walk.open}
        ${capture(load_statistics)}
      }
% if wide and det then
    } else if (warp == 1) {
      ${walk.ends_counted}
      ${walk.open}
        ${capture(watch_turns)}
      }
    } else {
      at.parity = 0; /* waits as the consumers do */
      ${walk.ends_counted}
%   if walk.skipped then
%     if not walk.rising then
      await_turn(at_keys, at_keys.turns, ${walk.skipped});
%     end
      pass_turn(at_keys.turns, ${walk.skipped});
%   end
      ${walk.open}
        ${capture(pass_turns)}
      }
%   if not walk.rising then
      await_turn(at_keys, at_keys.turns, ${walk.turns});
      pass_turn(at_keys.turns, ${walk.turns});
%   end
% end
% if not wide then
    } else if (warp > 0) {
%   if not det then
      launch_wait(); /* for cleared sums */
%   end
      serve_dq(args, at_keys, memory, warp - 1);
% end
    }
    return;
  }
  registers_take<${tiles.consumer_registers}>();
% if wide then
%   if not det then
  launch_wait(); /* for cleared sums */
%   end
% end
  consume(args, dk_map, dv_map, at_keys, memory);
% if wide then
  if (args.done && lane == 0)
    count_part(args, at_keys);
% end
}
% if tiles.short then

%   include "sm90/bwd_short.cu.lua"
% end

% include "sm90/convert.cu.lua"
% if #require("score").graded > 0 then
%   include "gpu_gradients.cu.lua"
% end
