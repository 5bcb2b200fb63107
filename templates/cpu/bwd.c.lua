% -- Attention backward on the processor: preprocess, one block a key tile, dQ's conversion.
% local mask, score = require "mask", require "score"
% local pairwise, gradients = require "cpu.pairwise", require "cpu.gradients"
% local T = spec.dtype
% local q_here, k_here = "row_first + shift + i", "key_first + j"
% local factor = not score.unit_derivative
% local walk = mask.runs { walked = "q", fixed = "k", first = "key_first", last = "key_last",
%                          tile = tiles.queries, tiles = "query_tiles", length = "a->seqlen_q",
%                          shift = "shift", integer = "long long", names = require "cpu.names" }
% include "cpu/prelude.c.lua"
% local places = ""
% if walk.unsolved then

%   include "cpu/tile_kept.c.lua"
%   for _, place in ipairs(require("interval").places(mask.keep, require "cpu.names")) do
%     places = places .. place .. ", "
%   end
% end

% include "cpu/preprocess.c.lua"

/* Backward: with P = exp(S - LSE) rebuilt from Q, K and LSE, and D from the preprocess,
 *   dV = P^T dO,  dP = dO V^T,  dS = P * (dP - D),  dQ = softmax_scale * dS K,
 *   dK = softmax_scale * dS^T Q
 * (Dao et al., arXiv:2205.14135, algorithm 4). Keys are the outer loop: dK and dV of a key tile
 * stay in scratch while all queries of all heads of the group pass by, so that K, V, dK and dV are
 * never expanded. dQ is summed in memory, key tiles in ascending order: a block adds to a query
 * tile only when the block of the key tile before has passed it, which makes dQ the same to the
 * last bit whatever the threads do. That block has started earlier, so nobody waits for ever.
 *
 * Grid: heads_kv x batch x key tiles: blocks that wait on each other start far apart.
 */
% local function query_tile(masked)
const long long row_first = tile * QUERIES;
const int rows = (int)min(QUERIES, a->seqlen_q - row_first);
const long long row = (batch * a->heads_q + head) * a->seqlen_q + row_first;
const element *q_rows = q_head + row_first * a->q.stride_seq;
const element *dout_rows = dout_head + row_first * a->dout.stride_seq;
ops->load_${T}(q, LD_QK, q_rows, a->q.stride_seq, rows, DIM_QK, a->softmax_scale);
ops->load_${T}(dout, LD_V, dout_rows, a->dout.stride_seq, rows, DIM_V, 1.0f);

ops->matmul(s, KEYS, q, LD_QK, 1, k_t, KEYS, rows, keys, DIM_QK, 0);
%   if masked or not score.identity then
for (int i = 0; i < rows; ++i) {
  for (int j = 0; j < keys; ++j) {
    ${pairwise.statements { masked = masked, unsolved = walk.unsolved, q = q_here, k = k_here }}
  }
}
%   end
ops->probabilities(s, KEYS, rows, keys, a->lse + row);
ops->matmul(dv, LD_V, s, 1, KEYS, dout, LD_V, keys, DIM_V, rows, 1);

ops->matmul(ds, KEYS, dout, LD_V, 1, v_t, KEYS, rows, keys, DIM_V, 0);
ops->score_gradient(ds, s, KEYS, rows, keys, a->d + row);
%   if #score.gradients > 0 then
%     if gradients.by_row ~= "" then
${gradients.by_row}
%     end
for (int i = 0; i < rows; ++i) {
  for (int j = 0; j < keys; ++j) {
    const float gradient = ds[i * KEYS + j]; /* into the final score */
    if (gradient == 0.0f)
      continue;
    ${gradients.statements { q = q_here, k = k_here }}
%     if factor then
    ds[i * KEYS + j] = gradient * ds_factor[i * KEYS + j];
%     end
  }
}
%   elseif factor then
for (int i = 0; i < rows; ++i)
  for (int j = 0; j < keys; ++j)
    if (ds[i * KEYS + j] != 0.0f)
      ds[i * KEYS + j] *= ds_factor[i * KEYS + j];
%   end
ops->matmul(dk, LD_QK, ds, 1, KEYS, q, LD_QK, keys, DIM_QK, rows, 1);

const int turn = (int)(member * query_tiles + tile + 1);
if (key_tile > 0)
  ops->await(progress - 1, turn);
ops->matmul(a->dq_sum + row * LD_QK, LD_QK, ds, KEYS, 1, k, LD_QK, rows, DIM_QK, keys, 1);
%   if gradients.add_rows ~= "" then
${gradients.add_rows}
%   end
ops->advance(progress, turn);
% end
void ${spec.name}_main(
    const void *args, const fa_cpu_block *block) {
  const backward_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  float *k = block->scratch;          /* KEYS x LD_QK */
  float *k_t = k + KEYS * LD_QK;      /* DIM_QK x KEYS */
  float *v_t = k_t + DIM_QK * KEYS;   /* DIM_V x KEYS */
  float *q = v_t + DIM_V * KEYS;      /* QUERIES x LD_QK, times softmax_scale */
  float *dout = q + QUERIES * LD_QK;  /* QUERIES x LD_V */
  float *s = dout + QUERIES * LD_V;   /* QUERIES x KEYS: scores, then probabilities */
  float *ds = s + QUERIES * KEYS;     /* QUERIES x KEYS: dP, then dS */
  float *dk = ds + QUERIES * KEYS;    /* KEYS x LD_QK */
  float *dv = dk + KEYS * LD_QK;      /* KEYS x LD_V; first a place for V */
% if factor then
  float *ds_factor = dv + KEYS * LD_V; /* QUERIES x KEYS: d(final score) / d(raw score) */
% end
% for i, g in ipairs(pairwise.factors) do
%   local before = i > 1 and pairwise.factors[i - 1].tile or factor and "ds_factor" or "dv"
  float *${g.tile} = ${before} + KEYS * ${before == "dv" and "LD_V" or "QUERIES"}; /* QUERIES x KEYS */
% end

  const long long head_kv = block->x, batch = block->y, key_tile = block->z;
  const long long key_first = key_tile * KEYS;
  const int keys = (int)min(KEYS, a->seqlen_k - key_first);
  const long long query_tiles = (a->seqlen_q + QUERIES - 1) / QUERIES;
  const long long key_tiles = (a->seqlen_k + KEYS - 1) / KEYS;
  int *progress = a->progress + (batch * a->heads_kv + head_kv) * key_tiles + key_tile;

  const element *k_rows = rows_of(&a->k, batch, head_kv) + key_first * a->k.stride_seq;
  const element *v_rows = rows_of(&a->v, batch, head_kv) + key_first * a->v.stride_seq;
  ops->load_${T}(k, LD_QK, k_rows, a->k.stride_seq, keys, DIM_QK, 1.0f);
  ops->transpose(k_t, KEYS, k, LD_QK, keys, DIM_QK);
  ops->load_${T}(dv, LD_V, v_rows, a->v.stride_seq, keys, DIM_V, 1.0f);
  ops->transpose(v_t, KEYS, dv, LD_V, keys, DIM_V);
  ops->zero(dk, (long long)sizeof(float) * KEYS * LD_QK);
  ops->zero(dv, (long long)sizeof(float) * KEYS * LD_V);
% if not mask.trivial or score.needs_positions or gradients.positions then

  /* Positions are on the key axis: the last query stands at the last key. */
  const long long shift = a->seqlen_k - a->seqlen_q;
% end
% if not mask.trivial then
  const long long key_last = key_first + keys - 1;
% end
% if not walk.by_head then
  ${walk.setup}
% end
% if gradients.by_block ~= "" then

  ${gradients.by_block}
% end

  for (int member = 0; member < GROUP; ++member) {
    const long long head = head_kv * GROUP + member;
    const element *q_head = rows_of(&a->q, batch, head);
    const element *dout_head = rows_of(&a->dout, batch, head);
% if walk.by_head then
    ${walk.setup}
% end
    ${gradients.by_head}
% for _, run in ipairs(walk.runs) do

    for (long long tile = ${run.from}; tile < ${run.to}; ++tile) {
%   if run.masked and walk.unsolved then
      const long long first_of_tile = tile * QUERIES + shift;
      const int kept = tile_kept(a, ${places}first_of_tile,
          min(first_of_tile + QUERIES, a->seqlen_k) - 1, key_first, key_last);
      if (kept == NONE)
        continue;
%   end
      ${capture(query_tile, run.masked)}
    }
% end
    ${gradients.after_head}
  }
  ${gradients.after_block}

  /* Later key tiles wait on this counter alone, so it ends only after those before it. */
  const int passed_all = 0x7fffffff;
  if (key_tile > 0)
    ops->await(progress - 1, passed_all);
  ops->advance(progress, passed_all);

  /* The scale is in dK already, through Q. */
  element *dk_rows = rows_of(&a->dk, batch, head_kv) + key_first * a->dk.stride_seq;
  element *dv_rows = rows_of(&a->dv, batch, head_kv) + key_first * a->dv.stride_seq;
  ops->store_${T}(dk_rows, a->dk.stride_seq, dk, LD_QK, keys, DIM_QK, 1.0f);
  ops->store_${T}(dv_rows, a->dv.stride_seq, dv, LD_V, keys, DIM_V, 1.0f);
}

/* dQ = softmax_scale * its sum, in the tensor's type. Grid: query tiles x heads_q x batch. No
   scratch. */
void ${spec.name}_convert(
    const void *args, const fa_cpu_block *block) {
  const convert_args *a = args;
  const long long row_first = block->x * QUERIES, head = block->y, batch = block->z;
  const int rows = (int)min(QUERIES, a->seqlen_q - row_first);
  const long long row = (batch * a->heads_q + head) * a->seqlen_q + row_first;
  element *dq_rows = rows_of(&a->dq, batch, head) + row_first * a->dq.stride_seq;
  block->ops->store_${T}(dq_rows, a->dq.stride_seq, a->dq_sum + row * LD_QK, LD_QK, rows, DIM_QK,
      a->softmax_scale);
}
% if #score.graded > 0 then

%   include "cpu/gradients.c.lua"
% end
