% -- What all warps of backward's one launch know: its memory, its heads and which tiles are visited.
% local walk = require "sm90.walk_bwd"
% local of_keys = walk.ends:find("at_keys")
/* ---- One launch for short sequences ------------------------------------------------------------
 * A block takes whole heads, one after another, and of a head all key tiles in turn, the order in
 * which dQ is summed under `det`. Its sums of dQ are in memory that is its own: the first part of a
 * sum is stored there, others are added, and the last is added by the consumer, which then has dQ.
 * What a warp knows of its key tile it computes anew from the number of key tiles before: registers
 * are few.
 */

enum {
  K_EMPTY = 80, V_EMPTY = 96, O_FULL = 104, O_EMPTY = 112, SUM_FULL = 120, /* barriers */
  K_HERE = 136, /* as K_FULL, of as many buffers as K has */
  VISITED = 152, /* a struct visited for each key tile of a head */
  UNVISITED = 240, /* query tiles that no key tile visits, as bits */
  ENDINGS = 248, /* for each consumer, of its query tile */
  NEW_TILE = 256, /* for each buffer of Q, whether D is to be computed */
  O_TILE = DQ_STAGED + 2 * 4 * DQ_PART,
% if tiles.short.ahead then
  K_BUFFERS = 2,
  SECOND_K = O_TILE + DOUT_BYTES - K_TILE, /* from the first */
% else
  K_BUFFERS = 1,
% end
  DQ_ROW = ${tiles.dq_swizzled and "CHUNK_ROW" or "2 * DQ_COLUMNS"} /* bytes of dQ, as it leaves */
};

/* How the sum of dQ goes on: a part of many, the last of them, the only one. */
enum { GOES_ON, ENDS, IS_ALONE };

/* Query tiles as bits: those whose sums begin and end with this key tile. */
struct visited {
  unsigned first, last;
};

DEVICE int key_tile_count(const backward_args &args) { return (args.seqlen_k + KEYS - 1) / KEYS; }

/* Key tiles of all heads of the block. */
DEVICE int turn_count(const backward_args &args) {
  const int heads = (args.pairs - blockIdx.x + gridDim.x - 1) / gridDim.x;
  return uniform(heads) * key_tile_count(args); /* said to be uniform, lest all lanes keep it */
}

DEVICE int first_key(const backward_args &args, int place) {
% local det = spec.deterministic -- the order of dQ's sums is then that of the other entry
% if walk.longest == (det and "first" or "last") then
  return place * KEYS;
% else
  return (key_tile_count(args) - 1 - place) * KEYS;
% end
}

/* The block's key tile of that number. */
DEVICE key_tile find_keys(const backward_args &args, int turn) {
  const int key_tiles = key_tile_count(args), head = turn / key_tiles;
  const unsigned pair = blockIdx.x + head * gridDim.x;
  key_tile at_keys;
  at_keys.first = first_key(args, turn - head * key_tiles);
  at_keys.batch = pair / args.heads_kv;
  at_keys.head_kv = pair - at_keys.batch * args.heads_kv;
  return at_keys;
}

/* K's buffer in a turn. */
DEVICE ring_place k_place(int turn) {
% if tiles.short.ahead then
  return {turn & 1, turn >> 1 & 1u};
% else
  return {0, turn & 1u};
% end
}

DEVICE visited visited_at(const unsigned char *memory, const backward_args &args, int turn) {
  return ((const visited *)(memory + VISITED))[turn % key_tile_count(args)];
}

/* The query tiles that a key tile visits, as bits. */
DEVICE unsigned visited_by(const backward_args &args, ${of_keys and "int place" or "int"}) {
% if of_keys then
  key_tile at_keys;
  at_keys.first = first_key(args, place);
% end
  ${walk.ends}
  return ${walk.begin} < ${walk.finish} ? (2u << (${walk.finish} - 1)) - (1u << ${walk.begin}) : 0;
}

/* Done by one thread for all. */
DEVICE void find_visited(const backward_args &args, unsigned char *memory) {
  visited *of = (visited *)(memory + VISITED);
  const int key_tiles = key_tile_count(args);
  unsigned before = 0, after = 0;
  for (int place = 0; place < key_tiles; ++place) {
    const unsigned now = visited_by(args, place);
    of[place].first = now & ~before;
    before |= now;
  }
  for (int place = key_tiles - 1; place >= 0; --place) {
    const unsigned now = visited_by(args, place);
    of[place].last = now & ~after;
    after |= now;
  }
  const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;
  *(unsigned *)(memory + UNVISITED) = ((2u << (query_tiles - 1)) - 1) & ~after;
}

/* Eight values of a row of O or dO. */
DEVICE uint4 unit_of_row(unsigned tile, unsigned row, unsigned unit) {
  return load_shared_unit(tile + unit / 8 * QUERY_CHUNK + row * CHUNK_ROW +
                          (unit % 8 ^ row % 8) * 16);
}

/* -D of a query tile's rows, as the head's other key tiles find it again. */
DEVICE float *kept_d(const backward_args &args, int tile) {
  const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;
  return args.d + (long long)(blockIdx.x * query_tiles + tile) * QUERIES;
}

/* -D of a query tile, summed as the preprocess does, by all consumers, takes the place of dLSE in
   its statistics, `rows`. */
DEVICE void compute_d(unsigned rows, unsigned o, unsigned dout, float *kept) {
% local at_once = 256 // tiles.sum_lanes
  enum { AT_ONCE = ${math.min(at_once, tiles.queries)} /* rows */ };
  const unsigned thread = threadIdx.x - 128, lane = thread % LANES;
  const unsigned row_first = thread / LANES${at_once > tiles.queries and " % QUERIES" or ""};
  float sums[QUERIES / AT_ONCE];
#pragma unroll
  for (int i = 0; i < QUERIES / AT_ONCE; ++i) {
    const unsigned row = row_first + i * AT_ONCE;
    sums[i] = 0.0f;
#pragma unroll
    for (int first = 0; first < DIM_V / 8; first += LANES) {
% if spec.dim_v // 8 % tiles.sum_lanes ~= 0 then
      if (first + lane < DIM_V / 8)
% end
      sums[i] = dot_unit(unit_of_row(o, row, first + lane), unit_of_row(dout, row, first + lane),
                         sums[i]);
    }
  }
% if tiles.sum_lanes > 1 then
#pragma unroll
  for (int i = 0; i < QUERIES / AT_ONCE; ++i)
    sums[i] = sum_over_lanes(sums[i]);
% end
#pragma unroll
  for (int i = 0; i < QUERIES / AT_ONCE; ++i) {
    const unsigned row = row_first + i * AT_ONCE;
    if (lane == 0${at_once > tiles.queries and " && thread / LANES < QUERIES" or ""}) {
      const float d = subtract(sums[i], load_shared_float(rows + 4 * (QUERIES + row)));
      const float minus_lse = load_shared_float(rows + 4 * row);
      const bool dead = __float_as_uint(minus_lse) == 0xff800000u; /* the row saw no key */
      const float minus_d = dead ? 0.0f : multiply(d, -1.0f);
      store_shared_float(rows + 4 * (QUERIES + row), minus_d);
      kept[row] = minus_d;
    }
  }
}
