% -- How a step of a Hopper plan is begun and gets its tensor maps.
static fa_step *add_step(fa_plan *out, const char *entry, long long blocks, int threads,
                         unsigned arg_bytes) {
  fa_step *step = &out->steps[out->num_steps++];
  step->entry = entry;
  step->grid[0] = (unsigned)blocks;
  step->block[0] = (unsigned)threads;
  step->grid[1] = step->grid[2] = step->block[1] = step->block[2] = 1;
  step->cluster[0] = step->cluster[1] = step->cluster[2] = 0;
  step->shared_bytes = 0;
  step->programmatic = step->cooperative = step->num_maps = 0;
  step->arg_bytes = arg_bytes;
  return step;
}
% if spec.pass ~= "pre" then

/* Bytes to the next index. Of a single one they are of no use, but the encoder looks at them. */
static unsigned long long stride_bytes(long long stride, long long extent) {
  return extent > 1 ? (unsigned long long)stride * 2 : 16;
}

/* A map of a batch x seqlen x heads x dim tensor in boxes of 64 columns x `rows` positions. */
static void add_map(fa_step *step, const fa_plan_tensor *tensor, int dim, long long seqlen,
                    long long heads, long long batch, int rows) {
  fa_plan_map *map = &step->maps[step->num_maps++];
  map->base = tensor->data;
  map->element_bytes = 2;
  map->rank = 4;
  map->extent[0] = (unsigned long long)dim;
  map->extent[1] = (unsigned long long)seqlen;
  map->extent[2] = (unsigned long long)heads;
  map->extent[3] = (unsigned long long)batch;
  map->stride_bytes[0] = stride_bytes(tensor->stride_seq, seqlen);
  map->stride_bytes[1] = stride_bytes(tensor->stride_head, heads);
  map->stride_bytes[2] = stride_bytes(tensor->stride_batch, batch);
  map->box[0] = 64; /* 128 bytes, the span of the swizzle */
  map->box[1] = (unsigned)rows;
  map->box[2] = map->box[3] = 1;
  map->swizzle_bytes = 128;
  map->l2_promotion_bytes = ${tiles.l2_promotion};
}
% end
