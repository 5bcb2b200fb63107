% -- The steps of a cpu plan: what each entry gets, over which grid.
% include "cpu/args.c.lua"

enum { QUERIES = ${tiles.queries}, KEYS = ${tiles.keys} };

% include "tensor_steps.c.lua"

/* Adds a step and gives its argument block. */
static void *add_step(fa_plan *out, const char *entry, long long x, long long y, long long z,
                      unsigned scratch_bytes, unsigned arg_bytes) {
  fa_step *step = &out->steps[out->num_steps++];
  step->entry = entry;
  step->grid[0] = (unsigned)x;
  step->grid[1] = (unsigned)y;
  step->grid[2] = (unsigned)z;
  step->block[0] = step->block[1] = step->block[2] = 1;
  step->cluster[0] = step->cluster[1] = step->cluster[2] = 0;
  step->shared_bytes = scratch_bytes;
  step->programmatic = step->cooperative = step->num_maps = 0;
  step->arg_bytes = arg_bytes;
  return step->args;
}
% include "parameters_steps.c.lua"
% local params, score = require "params", require "score"
% local has_params, graded = #params.slots > 0, spec.pass == "bwd" and score.graded or {}
% local gradients, text = require "cpu.gradients", require "expr_text"
% if spec.pass == "fwd" then

void ${spec.name}_plan(const fa_problem *in, fa_plan *out) {
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;

  forward_args *a = add_step(
      out, "${spec.name}_main",
      query_tiles, in->heads_q, in->batch, ${tiles.scratch_bytes}, sizeof *a);
  a->seqlen_q = in->seqlen_q;
  a->seqlen_k = in->seqlen_k;
  a->heads_q = in->heads_q;
  set_tensor(&a->q, &in->q);
  set_tensor(&a->k, &in->k);
  set_tensor(&a->v, &in->v);
  set_tensor(&a->o, &in->o);
  a->lse = in->lse;
  a->softmax_scale = in->softmax_scale;
%   if has_params then
  set_parameters(&a->p, in);
%   end
}
% else

% include "workspace_steps.c.lua"

void ${spec.name}_plan(const fa_problem *in, fa_plan *out) {
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  const long long key_tiles = (in->seqlen_k + KEYS - 1) / KEYS;
  /* Progress is cleared even where there are keys but no queries. */
  const long long clearing_tiles = key_tiles > 0 && query_tiles == 0 ? 1 : query_tiles;
  const long long rows = in->batch * in->heads_q * in->seqlen_q;
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;
  float *d = add_part(out, in, "D", rows * 4);
  float *dq_sum = add_part(out, in, "dQ sum", rows * ${tiles.ld_qk} * 4);
  int *progress = add_part(out, in, "progress", in->batch * in->heads_kv * key_tiles * 4);
%   if #graded > 0 then
%     if gradients.any_blocks then
  const long long blocks = in->batch * in->heads_kv * key_tiles;
%     end
  gradient_parts parts;
%     for _, slot in ipairs(graded) do
  ${text.wrap("const long long " .. gradients.floats(slot) .. ";")}
%     end
  ${text.wrap("const long long gradient_floats = " .. gradients.all_floats .. ";")}
  float *gradients = add_part(out, in, "parts of gradients", gradient_floats * 4);
%     local before = "gradients"
%     for _, slot in ipairs(graded) do
%       local field = params.slots[slot + 1].field
  parts.${field} = ${before};
%       before = string.format("parts.%s + %s_floats", field, field)
%     end
%     if score.sink then
  float *dsink = ${before};
%     end
%   end

  preprocess_args *p = add_step(
      out, "${spec.name}_preprocess",
      clearing_tiles, in->heads_q, in->batch, 0, sizeof *p);
  p->seqlen_q = in->seqlen_q;
  p->seqlen_k = in->seqlen_k;
  p->heads_q = in->heads_q;
  set_tensor(&p->o, &in->o);
  set_tensor(&p->dout, &in->dout);
  p->dlse = in->dlse;
  p->d = d;
  p->dq_sum = dq_sum;
  p->progress = progress;
%   for _, field in ipairs(gradients.cleared) do
  p->${field} = parts.${field};
%   end
%   if spec.pass == "bwd" then

  backward_args *b = add_step(
      out, "${spec.name}_main",
      in->heads_kv, in->batch, key_tiles, ${tiles.scratch_bytes}, sizeof *b);
  b->seqlen_q = in->seqlen_q;
  b->seqlen_k = in->seqlen_k;
  b->heads_q = in->heads_q;
  b->heads_kv = in->heads_kv;
  set_tensor(&b->q, &in->q);
  set_tensor(&b->k, &in->k);
  set_tensor(&b->v, &in->v);
  set_tensor(&b->dout, &in->dout);
  set_tensor(&b->dk, &in->dk);
  set_tensor(&b->dv, &in->dv);
  b->lse = in->lse;
  b->d = d;
  b->dq_sum = dq_sum;
  b->progress = progress;
  b->softmax_scale = in->softmax_scale;
%     if has_params then
  set_parameters(&b->p, in);
%     end
%     if #graded > 0 then
  b->parts = parts;
%     end

  convert_args *c = add_step(
      out, "${spec.name}_convert",
      query_tiles, in->heads_q, in->batch, 0, sizeof *c);
  c->seqlen_q = in->seqlen_q;
  c->heads_q = in->heads_q;
  set_tensor(&c->dq, &in->dq);
  c->dq_sum = dq_sum;
  c->softmax_scale = in->softmax_scale;
%     if #graded > 0 then
%       include "cpu/gradients_steps.c.lua"
%     end
%   end
}
% end
