% -- The plan of the kernels that tests exercise the runtime with.
% local probe = tiles.probe
% include "probe/args.c.lua"

static probe_args *add_step(fa_plan *out, const fa_problem *in, const char *entry,
                            const fa_plan_tensor *from, const fa_plan_tensor *to) {
  fa_step *step = &out->steps[out->num_steps++];
  probe_args *a = (probe_args *)step->args;
  step->entry = entry;
  step->grid[0] = (unsigned)in->seqlen_q;
  step->grid[1] = (unsigned)in->heads_q;
  step->grid[2] = (unsigned)in->batch;
  step->block[0] = 32;
  step->block[1] = step->block[2] = 1;
  step->cluster[0] = step->cluster[1] = step->cluster[2] = 0;
  step->shared_bytes = step->programmatic = step->cooperative = step->num_maps = 0;
  step->arg_bytes = sizeof *a;
  a->seqlen_q = in->seqlen_q;
  a->seqlen_k = in->seqlen_k;
  a->heads_q = in->heads_q;
  a->from.data = from->data;
  a->from.stride_batch = from->stride_batch;
  a->from.stride_seq = from->stride_seq;
  a->from.stride_head = from->stride_head;
  a->to.data = to->data;
  a->to.stride_batch = to->stride_batch;
  a->to.stride_seq = to->stride_seq;
  a->to.stride_head = to->stride_head;
  a->lse = in->lse;
  a->shared_bytes = 0;
  a->d = 0;
  return a;
}

void ${spec.name}_plan(const fa_problem *in, fa_plan *out) {
  out->num_steps = out->num_parts = 0;
  out->workspace_bytes = 0;
% if spec.pass == "fwd" then
%   local entry = probe.missing and "_absent" or "_main"
  probe_args *a = add_step(out, in, "${spec.name}${entry}", &in->q, &in->o);
  fa_step *step = &out->steps[0];
%   if probe.shared then
  step->shared_bytes = (unsigned)in->batch * 1024;
  a->shared_bytes = step->shared_bytes;
%   end
%   if probe.steps then
  while (out->num_steps <= FA_PLAN_MAX_STEPS)
    add_step(out, in, "${spec.name}_main", &in->q, &in->o);
%   end
%   if probe.grid then
  step->grid[1] = 65536;
%   end
%   if probe.map then
  step->num_maps = 1;
  fa_plan_map *map = &step->maps[0];
  map->base = in->q.data;
  map->element_bytes = 2;
  map->rank = 2;
  map->extent[0] = ${spec.dim_qk};
  map->extent[1] = (unsigned long long)in->seqlen_q;
  map->stride_bytes[0] = (unsigned long long)in->q.stride_seq * 2;
  map->box[0] = ${spec.dim_qk};
  map->box[1] = 8;
  map->swizzle_bytes = 128;
  map->l2_promotion_bytes = 256;
%   end
%   if probe.cluster then
  step->cluster[0] = 2;
  step->cluster[1] = step->cluster[2] = 1;
  step->cooperative = 1;
  add_step(out, in, "${spec.name}_after", &in->q, &in->o);
  out->steps[1].programmatic = 1;
%   end
  (void)a, (void)step;
% else
  out->num_parts = 1;
  out->parts[0].name = "D";
  out->parts[0].offset = 0;
  out->parts[0].bytes = (unsigned long long)(in->batch * in->heads_q * in->seqlen_q) * 4;
  out->workspace_bytes = out->parts[0].bytes;
  float *d = (float *)in->workspace;
  add_step(out, in, "${spec.name}_preprocess", &in->dout, &in->dq)->d = d;
  add_step(out, in, "${spec.name}_main", &in->dout, &in->dq)->d = d;
% end
}
