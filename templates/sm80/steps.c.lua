% -- The steps of an sm80 plan: what each entry gets, over which grid.
% local score = require "score"
% -- Scores that nothing changes stay unscaled until they become exponents. 1.44269504 is log2(e).
% local exponent_scale = score.identity and "in->softmax_scale * 1.44269504f" or "1.44269504f"
% include "sm80/args.cu.lua"

enum { QUERIES = ${tiles.queries}, KEYS = ${tiles.keys} };

% include "tensor_steps.c.lua"

/* 0 divides nothing, as there is no block then. */
static divisor divisor_of(long long number) {
  const unsigned long long n = number > 0 ? (unsigned long long)number : 1;
  divisor d;
  d.number = (unsigned)n;
  d.shift = 31;
  while (1ULL << (d.shift - 31) < n) ++d.shift;
  d.magic = (unsigned)(((1ULL << d.shift) + n - 1) / n);
  return d;
}

% include "parameters_steps.c.lua"
% local has_params = #require("params").slots > 0
% local mask, linear = require "mask", require "linear"

/* Adds a step and gives its argument block. The grid is one-dimensional: x has no 65535 limit. */
static void *add_step(fa_plan *out, const char *entry, long long blocks, unsigned shared_bytes,
                      unsigned arg_bytes) {
  fa_step *step = &out->steps[out->num_steps++];
  step->entry = entry;
  step->grid[0] = (unsigned)blocks;
  step->grid[1] = step->grid[2] = 1;
  step->block[0] = ${tiles.threads};
  step->block[1] = step->block[2] = 1;
  step->cluster[0] = step->cluster[1] = step->cluster[2] = 0;
  step->shared_bytes = shared_bytes;
  step->programmatic = step->cooperative = step->num_maps = 0;
  step->arg_bytes = arg_bytes;
  return step->args;
}
% if spec.pass == "fwd" then

void ${spec.name}_plan(const fa_problem *in, fa_plan *out) {
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;

% if mask.searched "k" then
%   local by_head = linear.depends(mask.keep).head
  const long long groups = in->batch${by_head and " * in->heads_q" or ""};
  const long long fixed = QUERIES, walked = KEYS;
  tile_bounds *searched = (tile_bounds *)in->workspace;
  out->num_parts = 1;
  out->parts[0].name = "key tile bounds";
  out->parts[0].offset = 0;
  out->parts[0].bytes = (groups * query_tiles * sizeof(tile_bounds) + 255) / 256 * 256;
  out->workspace_bytes = out->parts[0].bytes;
%   include "gpu_search_steps.c.lua"

% end
  const long long blocks = query_tiles * in->heads_q * in->batch;
  forward_args *a = add_step(
      out, "${spec.name}_main",
      blocks, ${tiles.shared_bytes}, sizeof *a);
  a->seqlen_q = (int)in->seqlen_q;
  a->seqlen_k = (int)in->seqlen_k;
  a->key_tiles = (int)((in->seqlen_k + KEYS - 1) / KEYS);
  a->query_tiles = divisor_of(query_tiles);
  a->heads_q = divisor_of(in->heads_q);
  a->heads_kv = divisor_of(in->heads_kv);
  a->softmax_scale = in->softmax_scale;
  a->exponent_scale = ${exponent_scale};
  set_tensor(&a->q, &in->q);
  set_tensor(&a->k, &in->k);
  set_tensor(&a->v, &in->v);
  set_tensor(&a->o, &in->o);
  a->lse = in->lse;
% if mask.searched "k" then
  a->searched = searched;
% end
%   if has_params then
  set_parameters(&a->p, in);
%   end
}
% else

% include "workspace_steps.c.lua"

% if spec.pass == "bwd" and #score.graded > 0 then
%   include "gpu_gradients_steps.c.lua"

% end
void ${spec.name}_plan(const fa_problem *in, fa_plan *out) {
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  const long long key_tiles = (in->seqlen_k + KEYS - 1) / KEYS;
  const long long heads = in->batch * in->heads_q, pairs = in->batch * in->heads_kv;
  const long long counters = 1 + pairs * key_tiles;
  const long long row_blocks = query_tiles > 0 ? query_tiles : 1;
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;
  float *d = add_part(out, in, "D", heads * in->seqlen_q * 4);
  float *dq_sum = add_part(out, in, "dQ sum", heads * query_tiles * ${tiles.dq_floats} * 4);
  int *turns = add_part(out, in, "turns", counters * 4);

% if spec.pass == "bwd" and mask.searched "q" then
  tile_bounds *searched = add_part(
      out, in, "query tile bounds", in->batch * key_tiles * (long long)sizeof(tile_bounds));
  const long long fixed = KEYS, walked = QUERIES;
%   include "gpu_search_steps.c.lua"

% end
  preprocess_args *p = add_step(
      out, "${spec.name}_preprocess",
      row_blocks * heads, 0, sizeof *p);
  p->seqlen_q = (int)in->seqlen_q;
  p->query_tiles = divisor_of(row_blocks);
  p->heads_q = divisor_of(in->heads_q);
  set_tensor(&p->o, &in->o);
  set_tensor(&p->dout, &in->dout);
  p->dlse = in->dlse;
  p->d = d;
  p->dq_sum = dq_sum;
  p->turns = turns;
  p->counters = counters;
%   if spec.pass == "bwd" then

  backward_args *b = add_step(
      out, "${spec.name}_main",
      key_tiles * pairs, ${tiles.shared_bytes}, sizeof *b);
  b->seqlen_q = (int)in->seqlen_q;
  b->seqlen_k = (int)in->seqlen_k;
  b->query_tiles = (int)query_tiles;
  b->key_tiles = divisor_of(key_tiles);
  b->heads_q = divisor_of(in->heads_q);
  b->heads_kv = divisor_of(in->heads_kv);
%     if spec.deterministic then
  b->pairs = divisor_of(pairs);
%     end
  b->softmax_scale = in->softmax_scale;
  b->exponent_scale = ${exponent_scale};
  set_tensor(&b->q, &in->q);
  set_tensor(&b->k, &in->k);
  set_tensor(&b->v, &in->v);
  set_tensor(&b->dout, &in->dout);
  set_tensor(&b->dk, &in->dk);
  set_tensor(&b->dv, &in->dv);
  b->lse = in->lse;
  b->d = d;
%     if mask.searched "q" then
  b->searched = searched;
%     end
  b->dq_sum = dq_sum;
%     if has_params then
  set_parameters(&b->p, in);
%     end
%     if spec.deterministic then
  b->turns = turns;
%     end

  convert_args *c = add_step(
      out, "${spec.name}_convert",
      query_tiles * heads, ${tiles.convert_bytes}, sizeof *c);
  c->seqlen_q = (int)in->seqlen_q;
  c->query_tiles = divisor_of(query_tiles);
  c->heads_q = divisor_of(in->heads_q);
  c->softmax_scale = in->softmax_scale;
  set_tensor(&c->dq, &in->dq);
  c->dq_sum = dq_sum;
%     if #score.graded > 0 then

  add_gradient_steps(out, in, d);
%     end
%   end
}
% end
