% -- The steps of a Hopper plan: which entry, over which grid, with which tensor maps.
% if spec.pass ~= "fwd" then
%   include "sm90/steps_bwd.c.lua"
% else
% local dynamic, searched = tiles.dynamic, require("mask").searched "k"
% local groups = searched and require("linear").depends(require("mask").keep).head
%     and "in->heads_q * in->batch" or "in->batch"
% include "sm90/args.cu.lua"

% if not dynamic then
static long long min(long long a, long long b) { return a < b ? a : b; }
% end

% include "parameters_steps.c.lua"

% include "sm90/step.c.lua"

/* Consumer warpgroups a block, of at most `most`: what ends first when w of them take w + 1 units of
   time for a key tile, and every query tile 10 more; places: blocks that run at once. It changes no
   result.${dynamic and " Tiles are taken to have half as many keys on average as the longest." or ""} */
static int choose_warpgroups(const fa_problem *in, int most, int keys, int places) {
  const double heads = (double)in->heads_q * (double)in->batch;
  const double key_tiles = (double)((in->seqlen_k + keys - 1) / keys);
  const long long warpgroups = (in->seqlen_q + 63) / 64; /* of a head */
  int best = most;
  double best_time = 0;
  for (int w = most; w > 0; --w) {
    const long long tiles = (warpgroups + w - 1) / w;
    const double share = heads * (double)tiles / places; /* tiles of a block */
    const double units = (double)(warpgroups + tiles) / (double)tiles;
% if dynamic then
    const double longest = (w + 1) * key_tiles + 10, sum = share * (units * key_tiles / 2 + 10);
    const double time = sum > longest ? sum : longest;
% else
    const double rounds = share > (double)(long long)share ? (double)(long long)share + 1 : share;
    const double time = rounds * (units * key_tiles + 10);
% end
    if (w == most || time <= best_time) {
      best = w;
      best_time = time;
    }
  }
  return best;
}
% if dynamic then

/* Heads whose tiles are taken together: their K and V stay in half of L2. A power of two, so that
   sections divide usual numbers of heads. */
static unsigned section_heads(const fa_problem *in) {
  const double pair_bytes = 2.0 * ${spec.dim_qk + spec.dim_v} * (double)in->seqlen_k;
  const long long pairs = in->heads_kv * in->batch;
  long long section = 1;
  while (section < pairs && 2.0 * (double)section * pair_bytes <= 0.55 * (double)in->l2_bytes)
    section *= 2;
  return (unsigned)((section < pairs ? section : pairs) * ${spec.group});
}
% end

static void plan_entry(const fa_problem *in, fa_plan *out, const char *entry, int most, int keys,
                       long long ring_bytes, long long warpgroup_bytes) {
  const int places = in->processors;
  const int warpgroups = choose_warpgroups(in, most, keys, places);
  const long long rows = 64 * warpgroups, heads = in->heads_q * in->batch;
  const long long query_tiles = (in->seqlen_q + rows - 1) / rows, tiles = heads * query_tiles;
% if searched then
  const long long fixed = 64, walked = keys;
  tile_bounds *searched = (tile_bounds *)(in->workspace + 256);
%   include "gpu_search_steps.c.lua"
% end
% if dynamic then
  /* A block that draws tiles claims one before it ends its last, so with few tiles one block each
     is better balanced. */
  const int draws = tiles > 2 * (long long)places;
  const long long blocks = draws ? places : tiles;
  if (draws) {
    fa_step *clear = add_step(out, "${spec.name}_clear", 1, 32, sizeof(clear_args));
    ((clear_args *)clear->args)->drawn = (unsigned *)in->workspace;
  }
% else
  const long long blocks = min(tiles, places);
% end
  fa_step *step = add_step(out, entry, blocks, 128 * (1 + warpgroups), sizeof(forward_args));
  step->shared_bytes = (unsigned)(ring_bytes + warpgroups * warpgroup_bytes);
  /* Without keys K and V are never read, but an extent of 0 is refused: their maps are then Q's. */
  const int any_key = in->seqlen_k > 0;
  const long long heads_kv = any_key ? in->heads_kv : in->heads_q;
  const long long seqlen_k = any_key ? in->seqlen_k : in->seqlen_q;
  add_map(step, &in->q, ${spec.dim_qk}, in->seqlen_q, in->heads_q, in->batch, 64);
  add_map(step, any_key ? &in->k : &in->q, ${spec.dim_qk}, seqlen_k, heads_kv, in->batch, keys);
  add_map(step, any_key ? &in->v : &in->q, ${spec.dim_v}, seqlen_k, heads_kv, in->batch, keys);
  add_map(step, &in->o, ${spec.dim_v}, in->seqlen_q, in->heads_q, in->batch, 16);

  forward_args *a = (forward_args *)step->args;
  a->seqlen_q = (int)in->seqlen_q;
  a->seqlen_k = (int)in->seqlen_k;
  a->heads_q = (int)in->heads_q;
  a->softmax_scale = in->softmax_scale;
  a->lse = in->lse;
% if #require("params").slots > 0 then
  set_parameters(&a->p, in);
% end
  a->heads = (unsigned)heads;
  a->query_tiles = (int)query_tiles;
% if searched then
  a->searched = searched;
  a->row_tiles = (int)((in->seqlen_q + 63) / 64);
% end
% if dynamic then
  step->programmatic = draws;
  a->section = draws ? section_heads(in) : a->heads;
  a->drawn = draws ? (unsigned *)in->workspace : 0;
% end
}

void ${spec.name}_plan(const fa_problem *in, fa_plan *out) {
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;
% if dynamic then
  out->num_parts = 1;
  out->parts[0].name = "drawn tiles";
  out->parts[0].offset = 0;
  out->parts[0].bytes = out->workspace_bytes = 256;
%   if searched then
  out->num_parts = 2;
  out->parts[1].name = "key tile bounds";
  out->parts[1].offset = 256;
  out->parts[1].bytes = 
      (${groups} * ((in->seqlen_q + 63) / 64) * sizeof(tile_bounds) + 255) / 256 * 256;
  out->workspace_bytes += out->parts[1].bytes;
%   end
% end
% for _, entry in ipairs(tiles.entries) do
%   local name = spec.name .. "_" .. entry.name
%   if entry.longest_keys then
  if (in->seqlen_k <= ${entry.longest_keys}) {
    plan_entry(in, out, "${name}",
               ${entry.warpgroups}, ${entry.keys}, ${entry.ring_bytes}, ${entry.warpgroup_bytes});
    return;
  }
%   else
  plan_entry(in, out, "${name}",
             ${entry.warpgroups}, ${entry.keys}, ${entry.ring_bytes}, ${entry.warpgroup_bytes});
%   end
% end
}
% end
