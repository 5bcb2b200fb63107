% -- The warps of backward's one launch that serve the consumers, and its entry.
% local walk = require "sm90.walk_bwd"
% local by_rows = tiles.by_rows
% local ahead = tiles.short.ahead
/* Has K of a key tile brought when what was in its buffer is no longer read. */
DEVICE void load_k(const tensor_map &k_map, unsigned shared, const key_tile &at_keys,
                   ring_place at) {
  const unsigned full = shared + K_HERE + 8 * at.buffer;
  wait(shared + K_EMPTY, {at.buffer, at.parity ^ 1});
  mbarrier_arrive_expect(full, K_CHUNKS * KEY_CHUNK);
  for (int chunk = 0; chunk < K_CHUNKS; ++chunk)
    tma_load(shared + K_TILE + ${ahead and "at.buffer * SECOND_K" or "chunk * KEY_CHUNK"}, k_map, chunk * K_SPLIT,
             at_keys.first, at_keys.head_kv, at_keys.batch, full, read_once());
}

% if ahead then
/* Has V of a key tile brought when the one before is in registers. */
% else
/* Has V of a key tile brought when dV of the one before has left through it. */
% end
DEVICE void load_v(const tensor_map &v_map, unsigned shared, const key_tile &at_keys,
                   unsigned parity) {
  wait(shared + V_EMPTY, {0, parity ^ 1});
  mbarrier_arrive_expect(shared + V_FULL, V_BYTES);
  for (int chunk = 0; chunk < V_CHUNKS; ++chunk)
    tma_load(shared + V_TILE + chunk * KEY_CHUNK, v_map, chunk * CHUNK, at_keys.first,
             at_keys.head_kv, at_keys.batch, shared + V_FULL, read_once());
}

/* Warp 0: brings ${ahead and "K, V, " or ""}Q, O and dO. */
DEVICE void load_queries(const backward_args &args,
% if ahead then
                         const tensor_map &k_map, const tensor_map &v_map,
% end
                         const tensor_map &q_map, const tensor_map &o_map,
                         const tensor_map &dout_map, const unsigned char *memory) {
  const unsigned shared = shared_address(memory);
  ring_place at = {0, 1}; /* of an unused barrier, the phase before the first counts as ended */
  ring_place o_at = {0, 1};
  tma_prefetch(q_map);
  tma_prefetch(o_map);
  tma_prefetch(dout_map);
  for (int turn = 0; turn < turn_count(args); ++turn) {
    const key_tile at_keys = find_keys(args, turn);
    const unsigned first = visited_at(memory, args, turn).first;
% if ahead then
    load_k(k_map, shared, at_keys, k_place(turn));
    load_v(v_map, shared, at_keys, turn & 1);
% end
    ${walk.ends}
    ${walk.tiles}
      const unsigned q_full = shared + Q_FULL + 8 * at.buffer;
      const unsigned dout_full = shared + DOUT_FULL + 8 * at.buffer;
      wait(shared + Q_EMPTY, at);
      mbarrier_arrive_expect(q_full, Q_BYTES);
      load_tile<QK_CHUNKS>(shared + Q_TILES + at.buffer * Q_BYTES, QUERIES, q_map, tile * QUERIES,
                           at_keys.head_kv, at_keys.batch, q_full);
      if (first >> tile & 1) {
        wait(shared + O_EMPTY, o_at);
        mbarrier_arrive_expect(shared + O_FULL, DOUT_BYTES);
        for (int chunk = 0; chunk < V_CHUNKS; ++chunk)
          tma_load(shared + O_TILE + chunk * QUERY_CHUNK, o_map, chunk * CHUNK, tile * QUERIES,
                   at_keys.head_kv, at_keys.batch, shared + O_FULL, read_once());
        o_at.parity ^= 1;
      }
      wait(shared + DOUT_EMPTY, at);
      mbarrier_arrive_expect(dout_full, DOUT_BYTES);
      load_tile<V_CHUNKS>(shared + DOUT_TILES + at.buffer * DOUT_BYTES, QUERIES, dout_map,
                          tile * QUERIES, at_keys.head_kv, at_keys.batch, dout_full);
      advance<2>(at);
    }
  }
}

/* Warp 3: brings LSE and D or, when a query tile is first seen, dLSE. */
DEVICE void load_rows(const backward_args &args, unsigned char *memory) {
  const unsigned shared = shared_address(memory);
  const int lane = threadIdx.x % 32;
  ring_place at = {0, 1}, o_at = {0, 0};
  for (int turn = 0; turn < turn_count(args); ++turn) {
    const key_tile at_keys = find_keys(args, turn);
    const unsigned first = visited_at(memory, args, turn).first;
    const long long row_0 =
        ((long long)at_keys.batch * args.heads_q + at_keys.head_kv) * args.seqlen_q;
    ${walk.ends}
    ${walk.tiles}
      const bool is_new = first >> tile & 1;
      float *to = (float *)(memory + STATISTICS) + at.buffer * 2 * QUERIES + lane;
      wait(shared + Q_EMPTY, at);
      if (!is_new) /* D of the last new tile is kept when its O is no longer read */
        wait(shared + O_EMPTY, {0, o_at.parity ^ 1});
#pragma unroll
      for (int i = 0; i < QUERIES; i += 32) {
        const int row = tile * QUERIES + i + lane;
        const bool inside = row < args.seqlen_q;
        const float lse = inside ? args.lse[row_0 + row] : MINUS_INFINITY;
        to[i] = __float_as_uint(lse) == 0xff800000u ? MINUS_INFINITY : multiply(lse, -LOG2_E);
        if (is_new)
          to[QUERIES + i] = inside && args.dlse ? args.dlse[row_0 + row] : 0.0f;
        else
          to[QUERIES + i] = kept_d(args, tile)[i + lane];
      }
      if (is_new) { /* the dO before has come and gone, so a parity is enough */
        mbarrier_wait(shared + DOUT_FULL + 8 * at.buffer, at.parity ^ 1);
        wait(shared + O_FULL, o_at);
        o_at.parity ^= 1;
      }
      if (lane == 0)
        ((int *)(memory + NEW_TILE))[at.buffer] = is_new;
      __syncwarp();
      release(shared + Q_FULL, at);
      advance<2>(at);
    }
  }
}

/* Stores dQ of a consumer's rows of a query tile. apart: bytes from 16 rows to the next. */
DEVICE void store_dq(const tensor_map &dq_map, unsigned from, int apart, const key_tile &at_keys,
                     int tile, int part) {
  for (int row = 0; row < 64; row += 16)
% if by_rows then
    tma_store(dq_map, 0, tile * QUERIES + part * 64 + row, at_keys.head_kv, at_keys.batch,
              from + row / 16 * apart);
% else
    tma_store(dq_map, part * K_SPLIT, tile * QUERIES + row, at_keys.head_kv, at_keys.batch,
              from + row / 16 * apart);
% end
  tma_store_commit();
  tma_store_wait_read<0>();
}

/* dQ = 0 for query tiles that see no key. */
DEVICE void clear_dq(const tensor_map &dq_map, unsigned staged, const key_tile &at_keys, int part,
                     unsigned tiles) {
  const int lane = threadIdx.x % 32;
  for (int i = lane * 16; i < 16 * DQ_ROW; i += 512)
    store_shared_quad(staged + i, 0.0f, 0.0f, 0.0f, 0.0f);
  proxy_fence();
  __syncwarp();
  for (int tile = 0; lane == 0 && tiles >> tile; ++tile)
    if (tiles >> tile & 1)
      store_dq(dq_map, staged, 0, at_keys, tile, part);
  __syncwarp();
}

/* Warps 1 and 2: ${ahead and "each takes" or "one brings K, the other V, and each takes"} dQ from a consumer. */
DEVICE void serve_heads(const backward_args &args,
% if not ahead then
                        const tensor_map &k_map, const tensor_map &v_map,
% end
                        const tensor_map &dq_map, unsigned char *memory, int part) {
  const unsigned shared = shared_address(memory), staged = shared + DQ_STAGED + part * 4 * DQ_PART;
  const int lane = threadIdx.x % 32;
  unsigned sums_loaded = 0;
  for (int turn = 0; turn < turn_count(args); ++turn) {
    const key_tile at_keys = find_keys(args, turn);
    const visited visits = visited_at(memory, args, turn);
    if (lane == 0) {
% if not ahead then
      if (part == 0)
        load_k(k_map, shared, at_keys, k_place(turn));
      else
        load_v(v_map, shared, at_keys, turn & 1);
% end
      bulk_wait(); /* before sums are added to again */
    }
    __syncwarp();
    const unsigned unvisited = *(const unsigned *)(memory + UNVISITED);
    if (unvisited && turn % key_tile_count(args) == 0)
      clear_dq(dq_map, staged, at_keys, part, unvisited);
    ${walk.ends_counted}
    ${walk.tiles}
      const bool first = visits.first >> tile & 1, last = visits.last >> tile & 1;
      float *sum = args.dq_sum + (blockIdx.x * query_tiles + tile) * DQ_FLOATS + part * DQ_PART;
      if (last && !first) {
        const unsigned sum_full = shared + SUM_FULL + 8 * part;
        if (lane == 0) {
          mbarrier_arrive_expect(sum_full, 4 * DQ_PART);
          bulk_load(staged, sum, 4 * DQ_PART, sum_full, read_once());
        }
        mbarrier_wait(sum_full, sums_loaded++ & 1);
      }
      if (lane == 0)
        ((int *)(memory + ENDINGS))[part] = !last ? GOES_ON : first ? IS_ALONE : ENDS;
      __syncwarp();
      named_barrier_arrive(2 + part, 160); /* the consumer may write */
      named_barrier_sync(4 + part, 160);   /* it has written */
      if (lane == 0 && last) {
        store_dq(dq_map, staged, DQ_PART, at_keys, tile, part);
      } else if (lane == 0) {
        if (first)
          bulk_store(sum, staged, 4 * DQ_PART, kept());
        else
          bulk_add(sum, staged, 4 * DQ_PART, kept());
        tma_store_commit();
        tma_store_wait_read<0>();
      }
      __syncwarp();
    }
  }
  if (lane == 0)
    bulk_wait();
}

extern "C" __global__ void __launch_bounds__(${tiles.threads}, 1)
${spec.name}_short(const __grid_constant__ tensor_map q_map,
    const __grid_constant__ tensor_map k_map, const __grid_constant__ tensor_map v_map,
    const __grid_constant__ tensor_map o_map, const __grid_constant__ tensor_map dout_map,
    const __grid_constant__ tensor_map dq_map, const __grid_constant__ tensor_map dk_map,
    const __grid_constant__ tensor_map dv_map, const __grid_constant__ backward_args args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const unsigned shared = shared_address(memory);
  const int warp = uniform(threadIdx.x / 32);

  if (threadIdx.x == 0) {
    for (int i = 0; i < K_BUFFERS; ++i) {
      mbarrier_init(shared + K_HERE + 8 * i, 1);
      mbarrier_init(shared + K_EMPTY + 8 * i, 4 * CONSUMERS);
    }
    mbarrier_init(shared + V_FULL, 1);
    mbarrier_init(shared + O_FULL, 1);
    mbarrier_init(shared + O_EMPTY, 4 * CONSUMERS);
    mbarrier_init(shared + V_EMPTY, 4 * CONSUMERS);
    for (int i = 0; i < 2; ++i) {
      mbarrier_init(shared + Q_FULL + 8 * i, 2); /* Q; LSE and D */
      mbarrier_init(shared + Q_EMPTY + 8 * i, 4 * CONSUMERS);
      mbarrier_init(shared + DOUT_FULL + 8 * i, 1);
      mbarrier_init(shared + DOUT_EMPTY + 8 * i, 4 * CONSUMERS);
      mbarrier_init(shared + SUM_FULL + 8 * i, 1);
    }
    mbarrier_init_fence();
    find_visited(args, memory);
  }
  __syncthreads();

  if (warp < 4) {
    registers_give_back<${tiles.producer_registers}>();
    if (warp == 0) { /* the same for all lanes: joined with the next, it cost registers */
      if (threadIdx.x == 0)
        load_queries(args, ${ahead and "k_map, v_map, " or ""}q_map, o_map, dout_map, memory);
    } else if (warp == 3) {
      load_rows(args, memory);
    } else {
      serve_heads(args, ${ahead and "" or "k_map, v_map, "}dq_map, memory, warp - 1);
    }
    return;
  }
  registers_take<${tiles.consumer_registers}>();
  consume_heads(args, dk_map, dv_map, memory);
}
