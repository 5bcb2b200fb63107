% -- The consumers of backward, up to 128 columns: each owns 64 keys, with dK and dV in registers.
% local mask, score = require "mask", require "score"
% local walk = require "sm90.walk_bwd"
% local det, grouped = spec.deterministic, spec.group > 1
% local factor = not score.unit_derivative
% -- A score that a variant has changed is scaled already.
% local exponent_scale = score.identity and "args.exponent_scale" or "LOG2_E"
% local text = require "expr_text"
% local uniforms, position = score.uniforms(require "sm90.names_bwd", mask.pairwise)
% local v_rest = (spec.dim_v + 15) // 16 > tiles.v_steps
enum {
  V_STEPS = ${tiles.v_steps}, /* of V's columns, in 16s, that stay in registers */
  V_PLACES = ${math.max(tiles.v_steps, 1)} /* an array has one */
};

/* S^T = K Q^T, 16 columns a step. TMA has filled columns past DIM_QK with zeros. */
DEVICE void start_scores(float (&s)[QUERIES / 2], unsigned k, unsigned q) {
#pragma unroll
  for (int step = 0; step < (DIM_QK + 15) / 16; ++step) {
    const int k_chunk = 16 * step / K_SPLIT, k_inside = 32 * step - 2 * K_SPLIT * k_chunk;
    wgmma_nt(s, describe(k + (k_chunk * KEY_CHUNK + k_inside) / 16),
                 describe(q + (step / 4 * QUERY_CHUNK + step % 4 * 32) / 16), step > 0);
  }
  wgmma_commit();
}

/* dP^T - D = V dO^T - D, the first columns of V from registers; -D is there already. */
DEVICE void start_dp(float (&dp)[QUERIES / 2], const unsigned (&v_first)[V_PLACES][4], unsigned v,
                     unsigned dout) {
#pragma unroll
  for (int step = 0; step < (DIM_V + 15) / 16; ++step) {
    const descriptor right = describe(dout + (step / 4 * QUERY_CHUNK + step % 4 * 32) / 16);
    if (step < V_STEPS)
      wgmma_rt(dp, v_first[step], right, 1);
% if v_rest then
    else
      wgmma_nt(dp, describe(v + (step / 4 * KEY_CHUNK + step % 4 * 32) / 16), right, 1);
% end
  }
  wgmma_commit();
}

/* c += P^T dO or dS^T Q, 16 queries a step. */
template <int count>
DEVICE void start_sum(float (&c)[count], const unsigned (&left)[QUERIES / 4], unsigned right,
                      int accumulate) {
#pragma unroll
  for (int step = 0; step < QUERIES / 16; ++step)
    wgmma_rn(c, left + 4 * step, describe(right + step * 16 * CHUNK_ROW / 16),
             step > 0 || accumulate);
  wgmma_commit();
}

/* dQ = dS K, 16 keys a step. */
DEVICE void start_dq(float (&dq)[DQ_COLUMNS / 2], unsigned ds, unsigned k) {
#pragma unroll
  for (int step = 0; step < KEYS / 16; ++step)
    wgmma_nn(dq, describe(ds + (step / 4 * QUERY_CHUNK + step % 4 * 32) / 16),
             describe(k + step * 16 * CHUNK_ROW / 16), step > 0);
  wgmma_commit();
}

/* A warp's 16 rows of dK or dV into their place in a tile, and from there to memory. */
template <int count>
DEVICE void store_rows(const tensor_map &map, unsigned rows, int key, const key_tile &at_keys,
                       int seqlen_k, const float (&c)[count], float scale, bool any) {
  const int lane = threadIdx.x % 32, row = lane % 16;
#pragma unroll
  for (int i = 0; i < count; i += 8) {
    const unsigned to = rows + i / 32 * KEY_CHUNK + row * CHUNK_ROW;
    const int unit = i / 8 % 4 * 2 + lane / 16;
% if tiles.odd_columns then
    if (i + 8 > count) {
      store_two_matrices(to + (i / 8 % 4 * 2 ^ row % 8) * 16, scaled(c + i, scale, any),
                         scaled(c + i + 2, scale, any));
      continue;
    }
% end
    store_matrices(to + (unit ^ row % 8) * 16, scaled(c + i, scale, any),
                   scaled(c + i + 2, scale, any), scaled(c + i + 4, scale, any),
                   scaled(c + i + 6, scale, any));
  }
  proxy_fence();
  __syncwarp();
  if (lane == 0 && key < seqlen_k)
    for (int chunk = 0; chunk < (2 * count + CHUNK - 1) / CHUNK; ++chunk)
      tma_store(map, chunk * CHUNK, key, at_keys.head_kv, at_keys.batch, rows + chunk * KEY_CHUNK);
}
% if tiles.divided then

/* A warp's 16 rows of dK or dV, of a part of the group, are added to those of the other parts. */
template <int count>
DEVICE void add_rows(float *sum, int key, const key_tile &at_keys, const backward_args &args,
                     const float (&c)[count], float scale) {
  const int lane = threadIdx.x % 32;
  const long long row_0 = (long long)pair_of(args, at_keys) * args.seqlen_k;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = key + lane / 4 + half * 8;
    float *to = sum + (row_0 + row) * (2 * count) + lane % 4 * 2;
    if (row < args.seqlen_k)
#pragma unroll
      for (int j = 0; j < count / 4; ++j)
        add_to_memory(to + 8 * j, multiply(c[4 * j + 2 * half], scale),
                      multiply(c[4 * j + 2 * half + 1], scale));
  }
}
% end
% local function add_dq()
const int sum = ${grouped and "(slot_of(args, at_keys) - at_keys.head_kv) * GROUP + head" or "slot_of(args, at_keys)"};
float *to = dq_sum + ((long long)sum * query_tiles + tile) * DQ_FLOATS;
%   if det then
if (visits++ % 2 == number) {
  const int turn = ${walk.turn};
  await_turn(at_keys, turns, turn);
  named_barrier_sync(4 + 2 * number, 160); /* the consumers have written */
  named_barrier_sync(5 + 2 * number, 160);
  if (threadIdx.x % 32 == 0) {
    proxy_fence_global();
    bulk_add(to, staged, 4 * DQ_FLOATS);
    tma_store_commit();
    tma_store_wait_read<0>();
  }
  __syncwarp();
  named_barrier_arrive(2, 160); /* the consumers may write */
  named_barrier_arrive(3, 160);
  pass_turn(turns, turn);
}
%   else
named_barrier_arrive(2 + number, 160); /* the consumer may write */
named_barrier_sync(4 + number, 160);   /* it has written */
if (threadIdx.x % 32 == 0) {
  bulk_add(to, staged, 4 * DQ_PART);
  tma_store_commit();
  tma_store_wait_read<0>();
}
__syncwarp();
%   end
% end

% if det then
/* A warp of the first warpgroup: has what the consumers staged of dQ added to memory, every other
   time. An addition takes as long to arrive as a visit: meanwhile the other warp does the next. */
% else
/* A warp of the first warpgroup: has what a consumer staged of dQ added to memory. */
% end
DEVICE void serve_dq(const backward_args &args, const key_tile &at_keys, unsigned char *memory,
                     int number) {
  await_memory(args, at_keys);
  ${walk.ends_counted}
% if det then
  const unsigned staged = shared_address(memory) + DQ_STAGED;
  float *dq_sum = args.dq_sum;
  int visits = 0;
  /* The counter of its turns, every other one. */
  int *turns = at_keys.turns + (${walk.skipped and walk.skipped .. " + " or ""}number + 1) % 2;
%   if walk.skipped then
%     if not walk.rising then
  await_turn(at_keys, turns, ${walk.skipped});
%     end
  pass_turn(turns, ${walk.skipped});
%   end
  if (number == 0) {
    named_barrier_arrive(2, 160);
    named_barrier_arrive(3, 160);
  }
% else
  const unsigned staged = shared_address(memory) + DQ_STAGED + number * 4 * DQ_PART;
  float *dq_sum = args.dq_sum + number * DQ_PART;
% end
  ${walk.open}
    ${capture(add_dq)}
  }
% if not det then
  if (threadIdx.x % 32 == 0)
    bulk_wait();
% elseif not walk.rising then
  await_turn(at_keys, turns, ${walk.turns});
  pass_turn(turns, ${walk.turns});
% end
  if (args.done && threadIdx.x % 32 == 0) {
    proxy_fence_global();
    count_part(args, at_keys);
  }
}
%
% local function positions(of_query)
%   if of_query then
const int q_position = tile * QUERIES + shift + lane % 4 * 2 + i / 4 * 8 + i % 2;
%   end
const int k_position = key_first + warp_row + lane / 4 + i / 2 % 2 * 8;
% end
% -- 0 in s where a mask that is looked for does not keep the pair.
% local function hide_searched()
%   local form = mask.by_axis(position, "k")
const int thread_key = afresh(at_keys.first) + warp_row + lane / 4; /* kept, it would spill */
${text.of_rows(form.of_row, "const int k_position = thread_key + row * 8;")}
#pragma unroll
for (int i = 0; i < QUERIES / 8; ++i) {
%   for number, term in ipairs(form.of_column) do
  const float2 both_${term[2]} = load_shared_pair(rows + ${4 * (number + 1)} * QUERIES + 32 * i);
%   end
#pragma unroll
  for (int e = 0; e < 2; ++e) {
%   if text.mentions(form.kept, "q_position") then
    const int q_position = tile * QUERIES + shift + lane % 4 * 2 + i * 8 + e;
%   end
%   for _, term in ipairs(form.of_column) do
%     local bits = string.format("e ? both_%s.y : both_%s.x", term[2], term[2])
    const ${term[1]} ${term[2]} = ${term[1] == "float" and bits or "__float_as_int(" .. bits .. ")"};
%   end
#pragma unroll
    for (int row = 0; row < 2; ++row) {
%   if text.mentions(form.kept, "k_position") then
      const int k_position = thread_key + row * 8;
%   end
      ${text.wrap("if (!(" .. form.kept .. "))")}
        s[4 * i + 2 * row + e] = 0.0f;
    }
  }
}
% end
% local function hide()
%   if mask.searched "q" then
${capture(hide_searched)}
%   else
#pragma unroll
for (int i = 0; i < QUERIES / 2; ++i) {
  ${capture(positions, not mask.trivial)}
  ${text.wrap("if (!(" .. mask.predicate(position) .. "))")}
    s[i] = 0.0f;
}
%   end
% end
% local function probabilities(masked)
#pragma unroll
for (int j = 0; j < QUERIES / 8; ++j) {
  const float2 minus_lse = load_shared_pair(rows + 32 * j);
#pragma unroll
  for (int i = 4 * j; i < 4 * j + 4; ++i) {
%   if score.needs_positions then
    ${capture(positions, true)}
%   end
%   if not score.identity then
    s[i] = multiply(s[i], args.softmax_scale);
%   end
%   if not score.identity then
    ${score.lines(position, factor and "derivative")}
%   end
%   if factor then
    dp[i] = multiply(dp[i], derivative);
%   end
    s[i] = exp2_approx(
        multiply_add(s[i], ${exponent_scale}, i % 2 ? minus_lse.y : minus_lse.x));
  }
}
%   if masked == true then
${capture(hide)}
%   elseif masked then
if (${masked}) {
  ${capture(hide)}
}
%   end
% end
% local function gradients()
#pragma unroll
for (int step = 0; step < QUERIES / 16; ++step) {
#pragma unroll
  for (int i = 8 * step; i < 8 * step + 8; i += 2) {
%   for e = 0, 1 do
%     local i = e == 0 and "i" or "i + 1"
    dp[${i}] = multiply(s[${i}], dp[${i}]);
%     if not score.identity then
    dp[${i}] = is_zero(s[${i}]) ? 0.0f : dp[${i}];
%     end
%   end
    ds[i / 2] = pack(dp[i], dp[i + 1]);
    p[i / 2] = pack(s[i], s[i + 1]);
  }
  const unsigned *four = ds + 4 * step;
  store_transposed_matrices(ds_lane + at.buffer * DS_BYTES + step * 16 * CHUNK_ROW, four[0],
                            four[1], four[2], four[3]);
}
% end
% local function stage_dq()
#pragma unroll
for (int i = 0; i < DQ_COLUMNS / 2; i += 4)
  store_shared_quad(dq_staged + i * 128, dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
% end
% local function load_v()
#pragma unroll
for (int step = 0; step < V_STEPS; ++step)
  load_matrices(v_first[step], v_rows + lane % 16 * CHUNK_ROW +
                                   ((2 * step + lane / 16) ^ lane % 8) * 16);
% end
% local function await_stores()
if (lane == 0)
  tma_store_wait_read<0>();
named_barrier_sync(6 + consumer, 128); /* what left through dS has left */
% end
% local tile_said = walk.heads_inside and (score.needs_positions
%   or text.mentions(mask.by_axis(position, "k").kept, "q_position"))
% -- masked: whether the tile needs the mask; or a condition that tells. short: of the one launch.
% local function visit(masked, short)
%   if masked or not score.identity then
${uniforms}
%   end
const unsigned rows = shared + STATISTICS + at.buffer * ${tiles.query_bytes} * QUERIES + lane % 4 * 8;
const unsigned q_tile = uniform(q + at.buffer * (Q_BYTES / 16));
const unsigned dout_tile = uniform(dout + at.buffer * (DOUT_BYTES / 16));
float s[QUERIES / 2], dp[QUERIES / 2];
unsigned p[QUERIES / 4], ds[QUERIES / 4];
wait(shared + Q_FULL, at);
%   if walk.heads_inside then
const unsigned work = uniform(load_shared_word(shared + WORK + 4 * at.buffer));
%     if tile_said then
const int tile = work / 2;
%     end
%   end
%   if short then
if (uniform(load_shared_word(shared + NEW_TILE + 4 * at.buffer))) {
  compute_d(shared + STATISTICS + at.buffer * 8 * QUERIES, shared + O_TILE,
            shared + DOUT_TILES + at.buffer * DOUT_BYTES, kept_d(args, tile));
  named_barrier_sync(1, 256); /* D is whole */
  release(shared + O_EMPTY, {0, 0});
}
%   end
#pragma unroll
for (int j = 0; j < QUERIES / 8; ++j) {
  const float2 minus_d = load_shared_pair(rows + 4 * QUERIES + 32 * j);
  dp[4 * j] = dp[4 * j + 2] = minus_d.x;
  dp[4 * j + 1] = dp[4 * j + 3] = minus_d.y;
}
pin(dp);
wgmma_fence();
start_scores(s, k, q_tile);
%   if short then
if (!any) {
  wait(shared + V_FULL, {0, turn & 1u});
  ${capture(load_v)}
  ${capture(await_stores)}
}
%   end
wait(shared + DOUT_FULL, at);
wgmma_fence();
start_dp(dp, v_first, v, dout_tile);
%   if short and tiles.short.ahead then
if (!any)
  release(shared + V_EMPTY, {0, 0}); /* the product has taken V from its registers */
%   end

wgmma_wait<1>(s);
%   if factor then
wgmma_wait<0>(dp); /* dP takes the factors at once: there are no registers to keep them in */
%   end
${capture(probabilities, masked)}
%   if not factor then
wgmma_wait<0>(dp);
%   end
${capture(gradients)}
wgmma_fence();
start_sum(dv, p, dout_tile, any);

proxy_fence();
named_barrier_sync(1, 256); /* dS is whole, and nobody reads the one before the last */
float (&dq)[DQ_COLUMNS / 2] = (float (&)[DQ_COLUMNS / 2])dp; /* dP is spent */
wgmma_fence();
start_dq(dq, uniform(ds_left + at.buffer * (DS_BYTES / 16)), k_right);
wgmma_wait<1>(dv);
release(shared + DOUT_EMPTY, at);
wgmma_fence();
start_sum(dk, ds, q_tile, any);
wgmma_wait<1>(dq);

named_barrier_sync(2 + consumer, 160); /* the dQ before has been read */
%   if short then
const unsigned ending = uniform(load_shared_word(shared + ENDINGS + 4 * consumer));
if (ending != GOES_ON) {
  finish_dq(dq, dq_staged, lane, args.softmax_scale, ending == IS_ALONE);
} else {
  ${capture(stage_dq)}
}
%   else
${capture(stage_dq)}
%   end
proxy_fence();
%   if det and not short then
named_barrier_arrive(4 + 2 * at.buffer + consumer, 160);
%   else
named_barrier_arrive(4 + consumer, 160);
%   end
wgmma_wait<0>(dk);
release(shared + Q_EMPTY, at);
any = 1;
advance<2>(at);
% end

% -- Where the lane finds things: addresses, and lower words of descriptors.
% local function places(short)
const unsigned shared = shared_address(memory);
const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
const int consumer = warp / 4 - 1, warp_row = (warp - 4) * 16;
%   local fixed = short and tiles.short.ahead and "" or "const "
${fixed}unsigned k = tile_word(shared + K_TILE + consumer * 64 * CHUNK_ROW, 16);
%   if v_rest then
const unsigned v = tile_word(shared + V_TILE + consumer * 64 * CHUNK_ROW, 16);
%   else
const unsigned v = 0; /* all of it is in registers */
%   end
%   if tiles.by_rows then
${fixed}unsigned k_right = tile_word(shared + K_TILE, KEY_CHUNK);
const unsigned ds_left = tile_word(shared + DS_TILES + consumer * 64 * CHUNK_ROW, 16);
%   else
const unsigned k_right = tile_word(shared + K_TILE + consumer * KEY_CHUNK, KEY_CHUNK);
const unsigned ds_left = tile_word(shared + DS_TILES, 16);
%   end
const unsigned q = tile_word(shared + Q_TILES, QUERY_CHUNK);
const unsigned dout = tile_word(shared + DOUT_TILES, QUERY_CHUNK);
/* Where the lane puts dS: row lane % 8 of matrix lane / 8, of 16 queries x 16 keys. */
const unsigned ds_lane = shared + DS_TILES + consumer * QUERY_CHUNK +
                         (lane / 16 * 8 + lane % 8) * CHUNK_ROW +
                         ((warp % 4 * 2 + lane / 8 % 2) ^ lane % 8) * 16;
const unsigned dq_staged = shared + DQ_STAGED + (warp - 4) * DQ_PART + lane * 16;
%   if short then
/* dK leaves through the consumer's part of dS, so that the next K can come meanwhile. */
const unsigned dk_rows = shared + DS_TILES + consumer * QUERY_CHUNK + warp % 4 * 16 * CHUNK_ROW;
%   else
const unsigned k_rows = shared + K_TILE + warp_row * CHUNK_ROW;
%   end
const unsigned v_rows = shared + V_TILE + warp_row * CHUNK_ROW;
% end

/* What a consumer does. */
DEVICE void consume(const backward_args &args, const tensor_map &dk_map, const tensor_map &dv_map,
                    const key_tile &at_keys, const unsigned char *memory) {
  ${capture(places)}

  unsigned v_first[V_PLACES][4];
  ring_place at = {0, 0};
  wait(shared + V_FULL, at);
  ${capture(load_v)}
  wait(shared + K_FULL, at);

  float dk[DIM_QK / 2], dv[DIM_V / 2];
  int any = 0; /* whether dK and dV hold anything yet */
  ${walk.bounds}
% local said = uniforms .. mask.predicate(position) .. (score.identity and "" or score.text(position))
% local by_head = text.mentions(said, "head")
% if walk.heads_inside then
  for (int left = GROUP * ${walk.count}; left > 0; --left) {
%   if by_head then
    const int head = ${walk.head_at "(GROUP - left % GROUP)"};
%   end
    ${capture(visit, "work % 2")}
  }
% elseif grouped then
  ${walk.open}
    ${capture(visit, walk.masked == "" or walk.masked)}
  }
% else
%   if by_head then
  const int head = at_keys.head_kv;
%   end
%   for _, run in ipairs(walk.runs_in_order) do
  ${walk.loop(run.from, run.to)}
    ${capture(visit, run.masked)}
  }
%   end
% end

  const int key = at_keys.first + warp_row;
% if tiles.divided then
  if (args.parts > 1) {
    if (any) {
      add_rows(args.dv_sum, key, at_keys, args, dv, 1.0f);
      add_rows(args.dk_sum, key, at_keys, args, dk, args.softmax_scale);
    }
    return;
  }
% end
  store_rows(dv_map, v_rows, key, at_keys, args.seqlen_k, dv, 1.0f, any);
  named_barrier_sync(1, 256); /* nobody reads K any more */
  store_rows(dk_map, k_rows, key, at_keys, args.seqlen_k, dk, args.softmax_scale, any);
  if (lane == 0) {
    tma_store_commit();
    tma_store_wait_read<0>();
  }
}
% if tiles.short then

%   include "sm90/bwd_heads.cu.lua"

/* The last part of dQ's sum is added to the sum of the others, if there are any, which lies where
   the part would; in its place comes dQ, 16 rows a warp. */
DEVICE void finish_dq(float (&dq)[DQ_COLUMNS / 2], unsigned staged, int lane, float scale,
                      bool only) {
#pragma unroll
  for (int i = 0; i < DQ_COLUMNS / 2; i += 4) {
    const float4 sum =
        only ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : load_shared_quad(staged + i * 128);
    dq[i] = add(dq[i], sum.x);
    dq[i + 1] = add(dq[i + 1], sum.y);
    dq[i + 2] = add(dq[i + 2], sum.z);
    dq[i + 3] = add(dq[i + 3], sum.w);
  }
  __syncwarp();
  const int row = lane % 16;
  const unsigned to = staged - lane * 16 + row * DQ_ROW;
#pragma unroll
  for (int i = 0; i < DQ_COLUMNS / 2; i += 8) {
    const int unit = i / 4 + lane / 16;
%   local function unit(name)
%     return tiles.dq_swizzled and "(" .. name .. " ^ row % 8)" or name
%   end
%   if tiles.dq_columns % 16 ~= 0 then
    if (i + 8 > DQ_COLUMNS / 2) {
      store_two_matrices(to + i / 4 * 16, scaled(dq + i, scale, true),
                         scaled(dq + i + 2, scale, true));
      continue;
    }
%   end
    store_matrices(to + ${unit("unit")} * 16, scaled(dq + i, scale, true),
                   scaled(dq + i + 2, scale, true), scaled(dq + i + 4, scale, true),
                   scaled(dq + i + 6, scale, true));
  }
}

/* What a consumer does in the one launch. */
DEVICE void consume_heads(const backward_args &args, const tensor_map &dk_map,
                          const tensor_map &dv_map, const unsigned char *memory) {
  ${capture(places, true)}
  unsigned v_first[V_PLACES][4];
  ring_place at = {0, 0};
  for (int turn = 0; turn < turn_count(args); ++turn) {
    wait(shared + K_HERE, k_place(turn));

    float dk[DIM_QK / 2], dv[DIM_V / 2];
    int any = 0; /* whether dK and dV hold anything yet */
    {
      const key_tile at_keys = find_keys(args, turn);
      ${walk.bounds}
%   for _, run in ipairs(walk.runs_in_order) do
      ${walk.loop(run.from, run.to)}
        ${capture(visit, run.masked, true)}
      }
%   end
    }

    turn = afresh(turn);
    const key_tile at_keys = find_keys(args, turn);
    const int key = at_keys.first + warp_row;
%   local ahead = tiles.short.ahead
%   if not ahead then
    named_barrier_sync(1, 256); /* nobody reads K and dS any more */
%   end
    release(shared + K_EMPTY, k_place(turn));
    if (!any) {
      wait(shared + V_FULL, {0, turn & 1u});
%   if ahead then
      release(shared + V_EMPTY, {0, 0});
%   end
      ${capture(await_stores)}
    }
%   if ahead then
    /* The other consumer may be at its last tile, but with the dS before that it is done. */
    const unsigned leaving = dk_rows + at.buffer * DS_BYTES;
    store_rows(dv_map, leaving + 64 * CHUNK_ROW, key, at_keys, args.seqlen_k, dv, 1.0f, any);
    store_rows(dk_map, leaving, key, at_keys, args.seqlen_k, dk, args.softmax_scale, any);
    if (lane == 0)
      tma_store_commit();
    const unsigned other = turn & 1 ? -SECOND_K / 16 : SECOND_K / 16;
    k += other;
    k_right += other;
%   else
    store_rows(dv_map, v_rows, key, at_keys, args.seqlen_k, dv, 1.0f, any);
    if (lane == 0)
      tma_store_commit();
    store_rows(dk_map, dk_rows, key, at_keys, args.seqlen_k, dk, args.softmax_scale, any);
    if (lane == 0) {
      tma_store_commit();
      tma_store_wait_read<1>();
      mbarrier_arrive(shared + V_EMPTY);
    }
%   end
  }
  if (lane == 0)
    tma_store_wait_read<0>();
}
% end
