% -- The steps of a Hopper plan of backward: preprocess, main, conversion.
% local mask, score = require "mask", require "score"
% include "sm90/args_bwd.cu.lua"

enum { QUERIES = ${tiles.queries}, KEYS = ${tiles.keys} };

% include "sm90/step.c.lua"

% include "tensor_steps.c.lua"

% include "parameters_steps.c.lua"

% include "workspace_steps.c.lua"
% if spec.pass == "bwd" then

static void add_maps(const fa_problem *in, fa_step *step) {
  /* Without queries Q and dO are never read, but an extent of 0 is refused: their maps are then
     those of K and V. */
  const int any_query = in->seqlen_q > 0;
  const long long seqlen_q = any_query ? in->seqlen_q : in->seqlen_k;
  const long long heads_q = any_query ? in->heads_q : in->heads_kv;
  add_map(step, any_query ? &in->q : &in->k, ${spec.dim_qk}, seqlen_q, heads_q, in->batch, QUERIES);
  add_map(step, &in->k, ${spec.dim_qk}, in->seqlen_k, in->heads_kv, in->batch, KEYS);
  add_map(step, &in->v, ${spec.dim_v}, in->seqlen_k, in->heads_kv, in->batch, KEYS);
  add_map(step, any_query ? &in->dout : &in->v, ${spec.dim_v}, seqlen_q, heads_q, in->batch, QUERIES);
  add_map(step, &in->dk, ${spec.dim_qk}, in->seqlen_k, in->heads_kv, in->batch, ${tiles.wide and "KEYS" or 16});
  add_map(step, &in->dv, ${spec.dim_v}, in->seqlen_k, in->heads_kv, in->batch, ${tiles.wide and "KEYS" or 16});
}
% end

% if spec.pass == "bwd" and (not mask.trivial or spec.deterministic) then
/* Of `count` pairs of a batch and a head of K, or parts of them, each with `members` heads of Q,
   those that keep what they read and add up in half of L2, but at least `least`. A power of two, so
   that sections divide usual numbers of heads. */
static long long fitting_pairs(const fa_problem *in, long long count, long long members,
                               long long least) {
  const double bytes = ${2 * (spec.dim_qk + spec.dim_v) + 4 * spec.dim_qk}.0 * (double)(members * in->seqlen_q);
  long long pairs = least;
  while (pairs < count && 2.0 * (double)pairs * bytes <= 0.55 * (double)in->l2_bytes)
    pairs *= 2;
  return pairs < count ? pairs : count;
}
% end

% if spec.pass == "bwd" then
static void set_backward_args(backward_args *to, const fa_problem *in) {
  to->lse = in->lse;
  to->seqlen_q = (int)in->seqlen_q;
  to->seqlen_k = (int)in->seqlen_k;
  to->heads_q = (int)in->heads_q;
  to->heads_kv = (int)in->heads_kv;
  to->pairs = (unsigned)(in->batch * in->heads_kv);
  to->softmax_scale = in->softmax_scale;
  to->exponent_scale = in->softmax_scale * 1.44269504f; /* log2(e) */
%   if #require("params").slots > 0 then
  set_parameters(&to->p, in);
%   end
}
%   if tiles.short then

/* Whether a block for whole heads pays: sequences are short, and few blocks idle in the last round,
   80 % of all rounds being work, or 60 % of what is shorter still. It changes no sum of `det`. */
static int is_short(const fa_problem *in) {
  const long long heads = in->batch * in->heads_q, places = in->processors;
  const long long rounds = (heads + places - 1) / places;
  const int percent = in->seqlen_k > 256 ? 80 : 60;
  return heads > 0 && in->seqlen_q > 0 && in->seqlen_q <= ${tiles.short.length} &&
         in->seqlen_k > 0 && in->seqlen_k <= ${tiles.short.length} &&
         100 * heads >= percent * rounds * places;
}

/* Everything in one launch. */
static void plan_short(const fa_problem *in, fa_plan *out) {
  const long long heads = in->batch * in->heads_q;
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  const long long d_bytes = query_tiles * QUERIES * 4;
  const long long sum_bytes = query_tiles * ${tiles.dq_floats * 4};
  long long blocks = heads < in->processors ? heads : in->processors;
  if (in->workspace_limit > 0 && in->workspace_limit < blocks * (d_bytes + sum_bytes))
    blocks = in->workspace_limit / (d_bytes + sum_bytes);
  if (blocks == 0)
    blocks = 1;
  float *d = add_part(out, in, "D", blocks * d_bytes);
  float *dq_sum = add_part(out, in, "dQ sum", blocks * sum_bytes);
  fa_step *step = add_step(out, "${spec.name}_short",
                           blocks, ${tiles.threads}, sizeof(backward_args));
  step->shared_bytes = ${tiles.short.shared_bytes};
  add_map(step, &in->q, ${spec.dim_qk}, in->seqlen_q, in->heads_q, in->batch, QUERIES);
  add_map(step, &in->k, ${spec.dim_qk}, in->seqlen_k, in->heads_kv, in->batch, KEYS);
  add_map(step, &in->v, ${spec.dim_v}, in->seqlen_k, in->heads_kv, in->batch, KEYS);
  add_map(step, &in->o, ${spec.dim_v}, in->seqlen_q, in->heads_q, in->batch, QUERIES);
  add_map(step, &in->dout, ${spec.dim_v}, in->seqlen_q, in->heads_q, in->batch, QUERIES);
  add_map(step, &in->dq, ${spec.dim_qk}, in->seqlen_q, in->heads_q, in->batch, 16);
%     if not tiles.dq_swizzled then
  step->maps[5].box[0] = ${tiles.dq_columns}; /* a consumer's columns, packed */
  step->maps[5].swizzle_bytes = 0;
%     end
  add_map(step, &in->dk, ${spec.dim_qk}, in->seqlen_k, in->heads_kv, in->batch, 16);
  add_map(step, &in->dv, ${spec.dim_v}, in->seqlen_k, in->heads_kv, in->batch, 16);
  backward_args *b = (backward_args *)step->args;
  set_backward_args(b, in);
  b->d = d;
  b->dlse = in->dlse;
  b->dq_sum = dq_sum;
  b->started = 0;
%     if spec.deterministic then
  b->turns = 0;
%     end
  b->done = 0;
  b->ring = 1;
  b->converters = 0;
  set_tensor(&b->dq, &in->dq);
  b->section = 0;
}
%   end

% end
% if tiles.divided and spec.pass == "bwd" then

/* Into how many parts a group is divided, a block each: as many as end soonest, counted in query
   tiles of a head. A block's begin and end take as long as 3 of them, adding dK and dV 3 more. */
static long long parts_of_group(const fa_problem *in, long long key_tiles, long long query_tiles) {
  const long long pairs = in->batch * in->heads_kv, places = in->processors;
  long long best = 1, least = 0;
  for (long long parts = 1; parts <= ${spec.group} && key_tiles > 0 && query_tiles > 0; ++parts) {
%   if tiles.parts then
    if (parts != ${tiles.parts})
%   elseif tiles.most_members < spec.group then
    if (${spec.group} % parts || ${spec.group} / parts > ${tiles.most_members})
%   else
    if (${spec.group} % parts)
%   end
      continue;
    const long long blocks = pairs * parts * key_tiles, extra = parts > 1 ? 6 : 3;
    const long long longest = ${spec.group} / parts * query_tiles + extra;
%   if mask.trivial then
    const long long end = (blocks + places - 1) / places * longest;
%   else
    /* As if under a causal mask, where blocks visit half of all tiles, the longest first. */
    const long long mean = blocks * (${spec.group} / parts * query_tiles / 2 + extra) / places;
    const long long end = mean > longest ? mean : longest;
%   end
    if (least == 0 || end < least) {
      least = end;
      best = parts;
    }
  }
  return best;
}
% end
/* Pairs of a batch and a head of K whose sums of dQ have memory at a time, where workspace_limit
   leaves too little for all; 0 where it does not. Then blocks of main convert them. */
static long long ring_pairs(const fa_problem *in, long long other_bytes) {
  const long long pairs = in->batch * in->heads_kv;
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  if (in->workspace_limit <= 0 || pairs == 0 || query_tiles == 0 || in->seqlen_k == 0)
    return 0;
  const long long left = in->workspace_limit - other_bytes - 6 * 256; /* parts are rounded up */
  const long long fits = left / (query_tiles * (in->heads_q / in->heads_kv) * ${tiles.dq_floats * 4});
  return fits >= pairs ? 0 : fits > 1 ? fits : 1;
}

% if spec.pass == "bwd" then
/* Blocks that convert the sums of a pair: those of a section fill the processors. */
static long long converting_blocks(const fa_problem *in, long long section) {
  const long long tiles = (in->seqlen_q + QUERIES - 1) / QUERIES * (in->heads_q / in->heads_kv);
  const long long blocks = (in->processors + section - 1) / section;
  return blocks < tiles ? blocks : tiles;
}

% end
% if spec.pass == "bwd" and #score.graded > 0 then
%   include "gpu_gradients_steps.c.lua"

% end
void ${spec.name}_plan(const fa_problem *in, fa_plan *out) {
  const long long query_tiles = (in->seqlen_q + QUERIES - 1) / QUERIES;
  const long long key_tiles = (in->seqlen_k + KEYS - 1) / KEYS;
  const long long heads = in->batch * in->heads_q, pairs = in->batch * in->heads_kv;
  const long long counters = 1 + pairs + pairs * key_tiles * ${tiles.turns};
  long long other = 4 * (heads * (in->seqlen_q + 1) + counters);
% if spec.pass == "bwd" and mask.searched "q" then
  other += (long long)sizeof(tile_bounds) * in->batch * key_tiles;
%   if tiles.longest_first then
  other += 4 * in->batch * key_tiles;
%   end
% end
% if spec.pass == "bwd" and #score.graded > 0 then
  other += gradient_bytes(in);
% end
  const long long ring = ring_pairs(in, other);
  const long long sums = ring > 0 ? ring * (in->heads_q / in->heads_kv) : heads; /* with memory */
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;
% if tiles.short and spec.pass == "bwd" then
  if (is_short(in)) {
    plan_short(in, out);
    return;
  }
% end
  float *d = add_part(out, in, "D", heads * in->seqlen_q * 4);
  float *dq_sum = add_part(out, in, "dQ sum", sums * query_tiles * ${tiles.dq_floats} * 4);
  const unsigned long long cleared = out->workspace_bytes; /* from here on */
  int *started = add_part(out, in, "counters", counters * 4);
% if tiles.divided and spec.pass == "bwd" then
  const long long key_sum_bytes = pairs * in->seqlen_k * ${4 * (spec.dim_qk + spec.dim_v)};
  const long long all = other + heads * query_tiles * ${tiles.dq_floats * 4} + key_sum_bytes + 5 * 256;
  const int is_tight = ring > 0 || (in->workspace_limit > 0 && all > in->workspace_limit);
  const long long parts = is_tight ? 1 : parts_of_group(in, key_tiles, query_tiles);
  const long long key_rows = parts > 1 ? pairs * in->seqlen_k : 0;
  float *dk_sum = parts > 1 ? add_part(out, in, "dK and dV sums", key_sum_bytes) : 0;
  float *dv_sum = dk_sum ? dk_sum + key_rows * ${spec.dim_qk} : 0;
% end
  const long long words = (long long)(out->workspace_bytes - cleared) / 4;
% if spec.pass == "bwd" and mask.searched "q" then
  tile_bounds *searched = add_part(
      out, in, "query tile bounds", in->batch * key_tiles * (long long)sizeof(tile_bounds));
%   if tiles.longest_first then
  int *order = add_part(out, in, "key tile order", 4 * in->batch * key_tiles);
%   end
  const long long fixed = KEYS, walked = QUERIES;
%   include "gpu_search_steps.c.lua"
% end

  fa_step *preprocess = add_step(out, "${spec.name}_preprocess",
                                 (query_tiles > 0 ? query_tiles : 1) * heads, 256,
                                 sizeof(preprocess_args));
  preprocess_args *p = (preprocess_args *)preprocess->args;
  p->seqlen_q = (int)in->seqlen_q;
  p->heads_q = (int)in->heads_q;
  set_tensor(&p->o, &in->o);
  set_tensor(&p->dout, &in->dout);
  p->dlse = in->dlse;
  p->d = d;
  p->dq_sum = dq_sum;
  p->sums = query_tiles * sums;
  p->counters = started;
  p->count = words;
% if spec.pass == "bwd" then

%   if not mask.trivial or spec.deterministic then
%     local least = not spec.deterministic and 4 or mask.trivial and 16 or 32
%     if tiles.divided then
  long long section = fitting_pairs(in, pairs * parts, ${spec.group} / parts, ${least});
%     else
  long long section = fitting_pairs(in, pairs, ${spec.group}, ${least});
%     end
%   else
  long long section = 1; /* head after head */
%   end
  if (ring > 0 && section > ring)
    section = ring; /* lest a block waits for one that takes its key tile later */
  const long long converters = ring > 0 ? converting_blocks(in, section) : 0;
  fa_step *step = add_step(out, "${spec.name}_main",
                           (key_tiles + converters) * pairs${tiles.divided and " * parts" or ""}, ${tiles.threads},
                           sizeof(backward_args));
  step->shared_bytes = ${tiles.shared_bytes};
  step->programmatic = 1;
  if (key_tiles > 0)
    add_maps(in, step);
  backward_args *b = (backward_args *)step->args;
  set_backward_args(b, in);
  b->d = d;
%   if tiles.short then
  b->dlse = 0;
%   end
  b->dq_sum = dq_sum;
%   if mask.searched "q" then
  b->searched = searched;
%     if tiles.longest_first then
  b->order = order;
%     end
%   end
  b->started = started;
%   if spec.deterministic then
  b->turns = started ? started + 1 + pairs : 0;
%   end
  b->done = ring > 0 && started ? started + 1 : 0;
  b->ring = (unsigned)(ring > 0 ? ring : pairs);
%   if tiles.divided then
  b->parts = (unsigned)parts;
  b->members = (int)(${spec.group} / parts);
  b->dk_sum = dk_sum;
  b->dv_sum = dv_sum;
%   end
  set_tensor(&b->dq, &in->dq);
  b->section = (unsigned)section;
  b->converters = (unsigned)converters;

%   if tiles.divided then
  const long long key_blocks = (key_rows + KEYS - 1) / KEYS;
%   end
  fa_step *convert = add_step(out, "${spec.name}_convert",
                              ring > 0 ? 0 : query_tiles * heads${tiles.divided and " + key_blocks" or ""}, 256,
                              sizeof(convert_args));
  convert->programmatic = key_tiles > 0; /* else the step before it has been left out */
  convert_args *c = (convert_args *)convert->args;
  c->seqlen_q = (int)in->seqlen_q;
  c->heads_q = (int)in->heads_q;
  c->softmax_scale = in->softmax_scale;
  set_tensor(&c->dq, &in->dq);
  c->dq_sum = dq_sum;
%   if tiles.divided then
  c->seqlen_k = (int)in->seqlen_k;
  c->heads_kv = (int)in->heads_kv;
  c->key_blocks = (unsigned)key_blocks;
  c->key_rows = key_rows;
  set_tensor(&c->dk, &in->dk);
  set_tensor(&c->dv, &in->dv);
  c->dk_sum = dk_sum;
  c->dv_sum = dv_sum;
%   end
%   if #score.graded > 0 then

  add_gradient_steps(out, in, d);
%   end
% end
}
