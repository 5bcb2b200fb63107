% -- Whose sums of dQ are whole, and how they become dQ.
/* ---- Sums of dQ --------------------------------------------------------------------------------
 * Pairs of a batch and a head of K use memory for their sums in turn: a ring, whose place is free
 * again when the sums there have been converted and cleared, by blocks that come after those of the
 * key tiles of their section.
 */

enum { PARTS = ${tiles.wide and "4 * CONSUMERS" or "CONSUMERS"} /* of a block's dQ, added apart */ };

DEVICE unsigned pair_of(const backward_args &args, const key_tile &at_keys) {
  return at_keys.batch * args.heads_kv + at_keys.head_kv;
}

/* The pair's place in the ring. */
DEVICE int slot_of(const backward_args &args, const key_tile &at_keys) {
  return pair_of(args, at_keys) % args.ring;
}

DEVICE int all_parts(const backward_args &args) {
  return PARTS * ((args.seqlen_k + KEYS - 1) / KEYS);
}

/* Waits until the sums of the pair that had the memory before have been converted and cleared. */
DEVICE void await_memory(const backward_args &args, const key_tile &at_keys) {
  const unsigned pair = pair_of(args, at_keys);
  if (pair >= args.ring && threadIdx.x % 32 == 0) {
    const int converted = all_parts(args) + (int)args.converters;
    while (load_acquire(args.done + pair - args.ring) < converted) {
    }
% if not tiles.wide then
    proxy_fence_global();
% end
  }
  __syncwarp();
}

/* Counts a part that has been added. */
DEVICE void count_part(const backward_args &args, const key_tile &at_keys) {
  count_released(args.done + pair_of(args, at_keys));
}

/* Waits until all parts of a pair have been added. */
DEVICE void await_sums(const backward_args &args, unsigned pair) {
  if (threadIdx.x % 32 == 0)
    while (load_acquire(args.done + pair) < all_parts(args))
      __nanosleep(200);
  __syncwarp();
}

% local function store_rows(word, words_of_unit)
DEVICE void store_rows_of_dq(const tensor &to, int head, int batch, int row_first, int seqlen_q,
                             const ${word} *tile, int thread) {
  element *dq = rows_of(to, batch, head) + row_first * to.stride_seq;
  const int rows = min(QUERIES, seqlen_q - row_first);
  for (int i = thread; i < rows * (DIM_QK / 8); i += 256) {
    const int row = i / (DIM_QK / 8), unit = i - row * (DIM_QK / 8);
    *(uint4 *)(dq + row * to.stride_seq + 8 * unit) =
        *(const uint4 *)(tile + row * PITCH + ${words_of_unit} * unit);
  }
}
% end
% local function begin_conversion()
/* What a block does that converts every args.converters-th query tile of a pair, and clears its
   sums for the pair that has the memory next. Inlined, it would cost consumers registers. */
__device__ __noinline__ void convert_sums(const backward_args &args, unsigned pair,
                                          unsigned first, unsigned char *memory) {
  const int thread = threadIdx.x, batch = pair / args.heads_kv;
  const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;
  const int tiles = ${spec.group > 1 and "GROUP * " or ""}query_tiles;
  float *dq_sum = args.dq_sum + (long long)(pair % args.ring) * tiles * DQ_FLOATS;
  if (thread >= 256)
    return;
  await_sums(args, pair);
% end
/* dQ = softmax_scale * its sum, rounded, from the order of the accumulators to rows. */

% if tiles.wide then
enum { PITCH = QK_CHUNKS * CHUNK_ROW + 16 /* bytes a row: rows then start in different banks */ };

/* Stages the sums of a query tile as rows; by 256 threads. */
DEVICE void stage_sums(unsigned char *tile, const float *dq_sum, float scale, int thread) {
  const int lane = thread % 32, warp = thread / 32;
  for (int chunk = warp / 4; chunk < QK_CHUNKS; chunk += 2) {
    const float4 *from = (const float4 *)dq_sum + chunk * (16 * QUERIES) + thread % 128;
    const unsigned to = shared_address(tile) + (lane / 16 * 8 + lane % 8) * PITCH +
                        chunk * CHUNK_ROW + warp % 4 * 32 + lane / 8 % 2 * 16;
#pragma unroll
    for (int j = 0; j < QUERIES / 8; j += 2) {
      const float4 a = load_coherent(from + j * 128), b = load_coherent(from + (j + 1) * 128);
      store_transposed_matrices(to + j * 8 * PITCH,
                                pack(multiply(a.x, scale), multiply(a.y, scale)),
                                pack(multiply(a.z, scale), multiply(a.w, scale)),
                                pack(multiply(b.x, scale), multiply(b.y, scale)),
                                pack(multiply(b.z, scale), multiply(b.w, scale)));
    }
  }
}

${capture(store_rows, "unsigned char", 16)}

${capture(begin_conversion)}
  for (int i = first; i < tiles; i += args.converters) {
    float *sum = dq_sum + (long long)i * DQ_FLOATS;
    stage_sums(memory + Q_TILES, sum, args.softmax_scale, thread);
    named_barrier_sync(1, 256);
    for (int j = thread; j < DQ_FLOATS / 4; j += 256)
      ((float4 *)sum)[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
% if spec.group > 1 then
    const int member = i / query_tiles, tile = i - member * query_tiles;
    store_rows_of_dq(args.dq, (pair - batch * args.heads_kv) * GROUP + member, batch,
                     tile * QUERIES, args.seqlen_q, memory + Q_TILES, thread);
% else
    store_rows_of_dq(args.dq, pair - batch * args.heads_kv, batch, i * QUERIES, args.seqlen_q,
                     memory + Q_TILES, thread);
% end
    named_barrier_sync(1, 256); /* the next may come; all is cleared */
  }
  if (thread == 0)
    count_released(args.done + pair);
}
% else
enum {
  DQ_COLUMNS = ${tiles.dq_columns}, /* of dQ a consumer */
  DQ_PART = DQ_FLOATS / CONSUMERS,
  ROW_COLUMNS = ${tiles.by_rows and "DQ_COLUMNS" or "2 * DQ_COLUMNS"},
  PITCH = ROW_COLUMNS / 2 + 4, /* words a row: rows then start in different banks */
  SUMS = DQ_COLUMNS / 8 /* fours of a thread, of 256, in a query tile */
};

/* A thread's part of the sums of a query tile. */
DEVICE const float4 *own_sums(const float *dq_sum, long long tile, int thread) {
  return (const float4 *)(dq_sum + tile * DQ_FLOATS) + thread / 32 * (DQ_PART / 16) + thread % 32;
}

DEVICE void load_sums(float4 (&sums)[SUMS], const float4 *from) {
#pragma unroll
  for (int j = 0; j < SUMS; ++j)
    sums[j] = load_coherent(from + j * 32);
}

DEVICE void stage_sums(unsigned *tile, const float4 (&sums)[SUMS], float scale, int thread) {
  const int lane = thread % 32, warp = thread / 32;
% if tiles.by_rows then
  unsigned *to = tile + (warp * 16 + lane / 4) * PITCH + lane % 4;
% else
  unsigned *to = tile + (warp % 4 * 16 + lane / 4) * PITCH + warp / 4 * DQ_COLUMNS / 2 + lane % 4;
% end
#pragma unroll
  for (int j = 0; j < SUMS; ++j) {
    to[4 * j] = pack(multiply(sums[j].x, scale), multiply(sums[j].y, scale));
    to[4 * j + 8 * PITCH] = pack(multiply(sums[j].z, scale), multiply(sums[j].w, scale));
  }
}

${capture(store_rows, "unsigned", 4)}

${capture(begin_conversion)}
  unsigned *staged = (unsigned *)(memory + Q_TILES);
  for (int i = first; i < tiles; i += args.converters) {
    float4 sums[SUMS];
    load_sums(sums, own_sums(dq_sum, i, thread));
    stage_sums(staged, sums, args.softmax_scale, thread);
    float4 *clear = (float4 *)own_sums(dq_sum, i, thread);
#pragma unroll
    for (int j = 0; j < SUMS; ++j)
      clear[j * 32] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    named_barrier_sync(1, 256);
% if spec.group > 1 then
    const int member = i / query_tiles, tile = i - member * query_tiles;
    store_rows_of_dq(args.dq, (pair - batch * args.heads_kv) * GROUP + member, batch,
                     tile * QUERIES, args.seqlen_q, staged, thread);
% else
    store_rows_of_dq(args.dq, pair - batch * args.heads_kv, batch, i * QUERIES, args.seqlen_q,
                     staged, thread);
% end
    named_barrier_sync(1, 256); /* the next may come; all is cleared */
  }
  if (thread == 0)
    count_released(args.done + pair);
}
% end
