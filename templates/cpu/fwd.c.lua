% -- Attention forward on the processor: one block is one query tile of one head.
% local mask, score = require "mask", require "score"
% local text, pairwise = require "expr_text", require "cpu.pairwise"
% local T = spec.dtype
% local position = require "cpu.names"
% local q_here, k_here = "q_first + i", "tile * KEYS + j"
% local walk = mask.runs { walked = "k", fixed = "q", first = "q_first", last = "q_last",
%                          tile = tiles.keys, tiles = "tiles", length = "a->seqlen_k",
%                          integer = "long long", names = position }
% include "cpu/prelude.c.lua"
% local places = ""
% if walk.unsolved then

%   include "cpu/tile_kept.c.lua"
%   for _, place in ipairs(require("interval").places(mask.keep, require "cpu.names")) do
%     places = places .. place .. ", "
%   end
% end

/* Attention forward: O = softmax(S) V and LSE, S = softmax_scale * Q K^T, with the online softmax
 * (Milakov and Gimelshein, arXiv:1805.02867): row maxima, row sums and O are kept for the keys seen
 * so far and rescaled as the maximum grows, so that no row of S is ever whole in memory.
 *
 * Grid: query tiles x heads_q x batch. Scratch: the tiles declared first.
 */
% local function key_tile(masked)
const int keys = (int)min(KEYS, a->seqlen_k - tile * KEYS);
const element *k_rows = k_head + tile * KEYS * a->k.stride_seq;
const element *v_rows = v_head + tile * KEYS * a->v.stride_seq;
ops->load_${T}(k, LD_QK, k_rows, a->k.stride_seq, keys, DIM_QK, 1.0f);
ops->transpose(k_t, KEYS, k, LD_QK, keys, DIM_QK);
ops->matmul(s, KEYS, q, LD_QK, 1, k_t, KEYS, rows, keys, DIM_QK, 0);
%   if masked or not score.identity then
for (int i = 0; i < rows; ++i) {
  for (int j = 0; j < keys; ++j) {
    ${pairwise.statements { masked = masked, unsolved = walk.unsolved, q = q_here, k = k_here }}
  }
}
%   end
ops->online_softmax(s, KEYS, rows, keys, row_max, row_sum, o, LD_V, DIM_V);
ops->load_${T}(v, LD_V, v_rows, a->v.stride_seq, keys, DIM_V, 1.0f);
ops->matmul(o, LD_V, s, KEYS, 1, v, LD_V, rows, DIM_V, keys, 1);
% end
void ${spec.name}_main(
    const void *args, const fa_cpu_block *block) {
  const forward_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  float *q = block->scratch;        /* QUERIES x LD_QK, times softmax_scale */
  float *k = q + QUERIES * LD_QK;   /* KEYS x LD_QK */
  float *k_t = k + KEYS * LD_QK;    /* DIM_QK x KEYS */
  float *v = k_t + DIM_QK * KEYS;   /* KEYS x LD_V */
  float *s = v + KEYS * LD_V;       /* QUERIES x KEYS: scores, then probabilities */
  float *o = s + QUERIES * KEYS;    /* QUERIES x LD_V */
  float *row_max = o + QUERIES * LD_V, *row_sum = row_max + QUERIES;

  const long long row_first = block->x * QUERIES, head = block->y, batch = block->z;
  const int rows = (int)min(QUERIES, a->seqlen_q - row_first);
  const long long tiles = (a->seqlen_k + KEYS - 1) / KEYS;
  const element *q_head = rows_of(&a->q, batch, head);
  const element *k_head = rows_of(&a->k, batch, head / GROUP);
  const element *v_head = rows_of(&a->v, batch, head / GROUP);

  const element *q_rows = q_head + row_first * a->q.stride_seq;
  ops->load_${T}(q, LD_QK, q_rows, a->q.stride_seq, rows, DIM_QK, a->softmax_scale);
  ops->zero(o, (long long)sizeof(float) * QUERIES * LD_V);
  for (int i = 0; i < rows; ++i) {
%   if score.sink then -- the sum's first term
    ${text.wrap("row_max[i] = " .. text.inline(score.sink, position) .. ";")}
    row_sum[i] = 1.0f;
%   else
    row_max[i] = MINUS_INFINITY;
    row_sum[i] = 0.0f;
%   end
  }
% if not mask.trivial or score.needs_positions then

  /* Positions are on the key axis: the last query stands at the last key. */
  const long long q_first = row_first + a->seqlen_k - a->seqlen_q;
% end
% if not mask.trivial then
  const long long q_last = q_first + rows - 1;
% end
  ${walk.setup}
% for _, run in ipairs(walk.runs) do

  for (long long tile = ${run.from}; tile < ${run.to}; ++tile) {
%   if run.masked and walk.unsolved then
    const int kept = tile_kept(a, ${places}q_first, q_last, tile * KEYS,
        min(tile * KEYS + KEYS, a->seqlen_k) - 1);
    if (kept == NONE)
      continue;
%   end
    ${capture(key_tile, run.masked)}
  }
% end

  float *lse = a->lse + (batch * a->heads_q + head) * a->seqlen_q + row_first;
  element *o_rows = rows_of(&a->o, batch, head) + row_first * a->o.stride_seq;
  ops->softmax_end(o, LD_V, rows, DIM_V, row_max, row_sum, lse);
  ops->store_${T}(o_rows, a->o.stride_seq, o, LD_V, rows, DIM_V, 1.0f);
}
