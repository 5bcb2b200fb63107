% -- The consumers of backward, above 128 columns: each owns columns of dQ, dK and dV, in runs of 64.
% local mask, score = require "mask", require "score"
% local walk = require "sm90.walk_bwd"
% local det, grouped = spec.deterministic, spec.group > 1
% local factor = not score.unit_derivative
% -- A score that a variant has changed is scaled already.
% local exponent_scale = score.identity and "args.exponent_scale" or "LOG2_E"
% local text = require "expr_text"
% local uniforms, position = score.uniforms(require "sm90.names_bwd", mask.pairwise)
% local dout_at = tiles.dout_stages == 2 and "at" or "dout_at"
% -- Additions to memory leave a multiprocessor slowly, and a look at a barrier waits behind them: Q of
% -- the next visit is awaited before the last additions of this one. Timed with two slices, without `det`;
% -- masks of variants have no register for it.
% local awaits_ahead = tiles.qk_slices > 1 and not det and not score.varied
enum {
  OWN_KEYS = KEYS / CONSUMERS, /* whose S and dP a consumer computes */
  QK_SLICES = ${tiles.qk_slices}, /* chunks of dQ and dK a consumer: every CONSUMERS-th */
  V_SLICES = ${tiles.v_slices}  /* of dV */
};

/* S = Q K^T or dP = dO V^T for the consumer's keys, 16 columns a step. TMA has filled columns past
   the last with zeros. */
template <int dim>
DEVICE void start_scores(float (&s)[OWN_KEYS / 2], unsigned left, unsigned right) {
#pragma unroll
  for (int step = 0; step < (dim + 15) / 16; ++step)
    wgmma_nt(s, describe(left + (step / 4 * QUERY_CHUNK + step % 4 * 32) / 16),
                 describe(right + (step / 4 * KEY_CHUNK + step % 4 * 32) / 16), step > 0);
  wgmma_commit();
}

/* Chunks of dV^T += dO^T P or dK^T += Q^T dS, 16 queries a step, from the consumer's first on. */
template <int slices>
DEVICE void start_sums(float (&c)[slices][KEYS / 2], unsigned left, unsigned right,
                       int accumulate) {
#pragma unroll
  for (int slice = 0; slice < slices; ++slice) {
    const unsigned from = uniform(left + slice * CONSUMERS * (QUERY_CHUNK / 16));
#pragma unroll
    for (int step = 0; step < QUERIES / 16; ++step)
      wgmma_tn(c[slice], describe(from + step * 16 * CHUNK_ROW / 16),
               describe(right + step * 16 * CHUNK_ROW / 16), step > 0 || accumulate);
  }
  wgmma_commit();
}

/* A chunk of dQ^T = K^T dS^T, 16 keys a step. */
DEVICE void start_dq(float (&dq)[QUERIES / 2], unsigned k, unsigned ds) {
#pragma unroll
  for (int step = 0; step < KEYS / 16; ++step)
    wgmma_tt(dq, describe(k + step * 16 * CHUNK_ROW / 16),
             describe(ds + (step / 4 * QUERY_CHUNK + step % 4 * 32) / 16), step > 0);
  wgmma_commit();
}

/* Adds a chunk of dQ^T to memory, as the accumulators lie. */
DEVICE void add_dq(float *to, const float (&dq)[QUERIES / 2]) {
#pragma unroll
  for (int i = 0; i < QUERIES / 2; i += 4)
    add_to_memory(to + i * 128, dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
}

/* P or dS from the warp's 16 rows to its place. first: of the units of 8 keys. */
DEVICE void store_scores(unsigned tile, int first, const unsigned (&p)[OWN_KEYS / 4]) {
  const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
  const unsigned to = tile + row * CHUNK_ROW;
#pragma unroll
  for (int i = 0; i < OWN_KEYS / 4; i += 4) {
    const int unit = first + i / 2 + lane / 16;
% if tiles.odd_columns then
    if (i + 4 > OWN_KEYS / 4) {
      const int last = first + i / 2;
      store_two_matrices(to + last / 8 * QUERY_CHUNK + (last % 8 ^ row % 8) * 16, p[i], p[i + 1]);
      continue;
    }
% end
    store_matrices(to + unit / 8 * QUERY_CHUNK + (unit % 8 ^ row % 8) * 16, p[i], p[i + 1],
                   p[i + 2], p[i + 3]);
  }
}

/* A warp's 16 columns of a chunk of dV^T or dK^T to their place, keys as rows. */
DEVICE void store_chunk(unsigned chunk, const float (&c)[KEYS / 2], float scale, bool any) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const unsigned to = chunk + (lane / 16 * 8 + lane % 8) * CHUNK_ROW +
                      ((2 * warp + lane / 8 % 2) ^ lane % 8) * 16;
#pragma unroll
  for (int i = 0; i < KEYS / 2; i += 8)
    store_transposed_matrices(to + i / 8 * 16 * CHUNK_ROW, scaled(c + i, scale, any),
                              scaled(c + i + 2, scale, any), scaled(c + i + 4, scale, any),
                              scaled(c + i + 6, scale, any));
}

/* The consumer's chunks of dV or dK to their places in a tile. */
template <int slices>
DEVICE void store_chunks(unsigned tile, int chunks, const float (&c)[slices][KEYS / 2], float scale,
                         bool any) {
  const int consumer = threadIdx.x / 128 - 1;
#pragma unroll
  for (int slice = 0; slice < slices; ++slice)
    if (consumer + slice * CONSUMERS < chunks)
      store_chunk(tile + (consumer + slice * CONSUMERS) * KEY_CHUNK, c[slice], scale, any);
}
% if tiles.divided then

/* The consumer's chunks of dV or dK, of a part of the group, are added to those of other parts. */
template <int columns, int slices>
DEVICE void add_chunks(float *sum, const key_tile &at_keys, const backward_args &args,
                       const float (&c)[slices][KEYS / 2], float scale) {
  const int lane = threadIdx.x % 32, consumer = threadIdx.x / 128 - 1;
  const int rows = args.seqlen_k - at_keys.first;
  float *tile = sum + ((long long)pair_of(args, at_keys) * args.seqlen_k + at_keys.first) * columns;
#pragma unroll
  for (int slice = 0; slice < slices; ++slice) {
    const int chunk = consumer + slice * CONSUMERS;
    const int first = chunk * CHUNK + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i) {
      const int row = lane % 4 * 2 + i / 4 * 8 + i % 2, column = first + i / 2 % 2 * 8;
      if (row < rows && column < columns)
        add_to_memory(tile + row * columns + column, multiply(c[slice][i], scale));
    }
  }
}
% end
% local function positions(of_query)
%   if of_query then
const int q_position = tile * QUERIES + shift + warp_row + lane / 4 + i / 2 % 2 * 8;
%   end
const int k_position = key_first + consumer * OWN_KEYS + lane % 4 * 2 + i / 4 * 8 + i % 2;
% end
% -- 0 in s and dp where a mask that is looked for does not keep the pair.
% local function hide_searched()
%   local form = mask.by_axis(position, "q")
${text.of_rows(form.of_row, "const int q_position = tile * QUERIES + shift + warp_row + lane / 4 + row * 8;")}
#pragma unroll
for (int column = 0; column < OWN_KEYS / 4; ++column) {
  const int k_position =
      key_first + consumer * OWN_KEYS + lane % 4 * 2 + column / 2 * 8 + column % 2;
%   for _, term in ipairs(form.of_column) do
  ${text.wrap("const " .. term[1] .. " " .. term[2] .. " = " .. term[3] .. ";")}
%   end
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int i = column / 2 * 4 + row * 2 + column % 2;
%   if text.mentions(form.kept, "q_position") then
    const int q_position = tile * QUERIES + shift + warp_row + lane / 4 + row * 8;
%   end
    ${text.wrap("if (!(" .. form.kept .. "))")}
      s[i] = dp[i] = 0.0f;
  }
}
% end
% local function hide()
%   if mask.searched "q" then
${capture(hide_searched)}
%   else
#pragma unroll
for (int i = 0; i < OWN_KEYS / 2; ++i) {
  ${capture(positions, not mask.trivial)}
  ${text.wrap("if (!(" .. mask.predicate(position) .. "))")}
    s[i] = dp[i] = 0.0f;
}
%   end
% end
% local function gradients()
#pragma unroll
for (int i = 0; i < OWN_KEYS / 2; ++i) {
  const int row = i / 2 % 2;
%   if score.needs_positions then
  ${capture(positions, true)}
%   end
%   if not score.identity then
  s[i] = multiply(s[i], args.softmax_scale);
%   end
%   if not score.identity then
  ${score.lines(position, factor and "derivative")}
%   end
  s[i] = exp2_approx(multiply_add(s[i], ${exponent_scale}, minus_lse[row]));
  dp[i] = multiply(s[i], add(dp[i], minus_d[row]));
%   if not score.identity then
  dp[i] = is_zero(s[i]) ? 0.0f : ${factor and "multiply(dp[i], derivative)" or "dp[i]"};
%   end
}
%   if walk.masked == "" then
${capture(hide)}
%   elseif walk.masked then
if (${walk.masked}) {
  ${capture(hide)}
}
%   end
% end
% local function tell_added()
%   if det then
__syncwarp();
release(shared + ADDED, at);
%   end
% end
% local function visit()
${uniforms}
const unsigned q_tile = uniform(q + at.buffer * (Q_BYTES / 16));
const unsigned dout_tile = uniform(dout + ${dout_at}.buffer * (DOUT_BYTES / 16));
float s[OWN_KEYS / 2], dp[OWN_KEYS / 2];
%   if not awaits_ahead then
wait(shared + Q_FULL, at);
%   end
wgmma_fence();
start_scores<DIM_QK>(s, q_tile, k);
wait(shared + DOUT_FULL, ${dout_at});
wgmma_fence();
start_scores<DIM_V>(dp, dout_tile, v);
const float *rows = statistics + at.buffer * 2 * QUERIES + warp_row + lane / 4;
const float minus_lse[2] = {rows[0], rows[8]};
const float minus_d[2] = {rows[QUERIES], rows[QUERIES + 8]};
wgmma_wait<1>(s);
wgmma_wait<0>(dp);
${capture(gradients)}
unsigned p[OWN_KEYS / 4], ds[OWN_KEYS / 4];
#pragma unroll
for (int i = 0; i < OWN_KEYS / 2; i += 2) {
  p[i / 2] = pack(s[i], s[i + 1]);
  ds[i / 2] = pack(dp[i], dp[i + 1]);
}
named_barrier_sync(1, 128 * CONSUMERS); /* nobody reads P and dS any more */
store_scores(shared + P_TILE, consumer * (OWN_KEYS / 8), p);
store_scores(shared + DS_TILE, consumer * (OWN_KEYS / 8), ds);
proxy_fence();
named_barrier_sync(1, 128 * CONSUMERS); /* P and dS are whole */

float dq[QUERIES / 2];
const int sum = ${grouped and "(slot_of(args, at_keys) - at_keys.head_kv) * GROUP + head" or "slot_of(args, at_keys)"};
const long long sum_tile = (long long)sum * query_tiles + tile;
float *dq_sum = args.dq_sum + sum_tile * DQ_FLOATS + threadIdx.x % 128 * 4;
wgmma_fence();
start_dq(dq, k_left, ds_right);
%   if tiles.v_chunks < tiles.warpgroups then
if (consumer < V_CHUNKS) {
  wgmma_fence();
  start_sums(dv, dout_tile + consumer * (QUERY_CHUNK / 16), p_right, any);
} else {
  wgmma_fence();
  wgmma_commit(); /* groups are counted */
}
%   else
start_sums(dv, dout_tile + consumer * (QUERY_CHUNK / 16), p_right, any);
%   end
wgmma_wait<1>(dq);
%   if det then
const int turn = ${walk.turn};
while (load_shared_acquire(shared + TURN) < turn) {
}
%   end
%   if tiles.qk_chunks < tiles.warpgroups then
if (consumer < QK_CHUNKS)
  add_dq(dq_sum + consumer * (CHUNK * QUERIES), dq);
%   else
add_dq(dq_sum + consumer * (CHUNK * QUERIES), dq);
%   end
%   for slice = 1, tiles.qk_slices - 1 do
wgmma_fence();
start_dq(dq, uniform(k_left + ${slice} * CONSUMERS * (KEY_CHUNK / 16)), ds_right);
%   end
%   if tiles.qk_slices > 1 then
start_sums(dk, q_tile + consumer * (QUERY_CHUNK / 16), ds_columns, any);
wgmma_wait<2>(dv[0]);
release(shared + DOUT_EMPTY, ${dout_at});
%     if awaits_ahead then
ring_place next = at;
advance<2>(next);
if (--left > 0)
  wait(shared + Q_FULL, next);
%     end
wgmma_wait<1>(dq);
if (consumer + CONSUMERS < QK_CHUNKS)
  add_dq(dq_sum + (consumer + CONSUMERS) * (CHUNK * QUERIES), dq);
${capture(tell_added)}
%   else
${capture(tell_added)}
wgmma_fence();
start_sums(dk, q_tile + consumer * (QUERY_CHUNK / 16), ds_columns, any);
wgmma_wait<1>(dv[0]);
release(shared + DOUT_EMPTY, ${dout_at});
%   end
wgmma_wait<0>(dk[0]);
release(shared + Q_EMPTY, at);
any = 1;
advance<2>(at);
%   if tiles.dout_stages == 1 then
advance<1>(dout_at);
%   end
% end

/* What a consumer does. */
DEVICE void consume(const backward_args &args, const tensor_map &dk_map, const tensor_map &dv_map,
                    const key_tile &at_keys, const unsigned char *memory) {
  const unsigned shared = shared_address(memory);
  const float *statistics = (const float *)(memory + STATISTICS);
  const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
  const int consumer = warp / 4 - 1, warp_row = warp % 4 * 16;
  const unsigned k = tile_word(shared + K_TILE + consumer * OWN_KEYS * CHUNK_ROW, 16);
  const unsigned v = tile_word(shared + V_TILE + consumer * OWN_KEYS * CHUNK_ROW, 16);
  const unsigned k_left = uniform(tile_word(shared + K_TILE + consumer * KEY_CHUNK, 16));
  const unsigned q = tile_word(shared + Q_TILES, 16), dout = tile_word(shared + DOUT_TILES, 16);
  const unsigned p_right = tile_word(shared + P_TILE, QUERY_CHUNK);
  const unsigned ds_columns = tile_word(shared + DS_TILE, QUERY_CHUNK);
  const unsigned ds_right = tile_word(shared + DS_TILE, 16);

  float dk[QK_SLICES][KEYS / 2], dv[V_SLICES][KEYS / 2];
  int any = 0; /* whether dK and dV hold anything yet */
  ring_place at = {0, 0};
% if tiles.dout_stages == 1 then
  ring_place dout_at = {0, 0};
% end
  wait(shared + K_FULL, at);
  wait(shared + V_FULL, at);
% local said = uniforms .. mask.predicate(position) .. (score.identity and "" or score.text(position))
% local by_head = text.mentions(said, "head")
  ${walk.bounds}
% if by_head and not grouped then
  const int head = at_keys.head_kv;
% end
% if awaits_ahead then
  int left = ${walk.visits};
  if (left > 0)
    wait(shared + Q_FULL, at);
% end
  ${walk.open}
    ${capture(visit)}
  }

% if tiles.divided then
  if (args.parts > 1) {
    if (any) {
      add_chunks<DIM_V>(args.dv_sum, at_keys, args, dv, 1.0f);
      add_chunks<DIM_QK>(args.dk_sum, at_keys, args, dk, args.softmax_scale);
    }
    return;
  }
% end
  named_barrier_sync(1, 128 * CONSUMERS); /* nobody reads K and V any more */
  store_chunks(shared + V_TILE, V_CHUNKS, dv, 1.0f, any);
  store_chunks(shared + K_TILE, QK_CHUNKS, dk, args.softmax_scale, any);
  proxy_fence();
  named_barrier_sync(2 + consumer, 128); /* the consumer's chunks are whole */
  if (threadIdx.x % 128 == 0) {
    for (int chunk = consumer; chunk < V_CHUNKS; chunk += CONSUMERS)
      tma_store(dv_map, chunk * CHUNK, at_keys.first, at_keys.head_kv, at_keys.batch,
                shared + V_TILE + chunk * KEY_CHUNK);
    for (int chunk = consumer; chunk < QK_CHUNKS; chunk += CONSUMERS)
      tma_store(dk_map, chunk * CHUNK, at_keys.first, at_keys.head_kv, at_keys.batch,
                shared + K_TILE + chunk * KEY_CHUNK);
    tma_store_commit();
    tma_store_wait_read<0>();
  }
}
