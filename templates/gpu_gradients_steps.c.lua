% -- What a GPU plan of backward says of gradients of parameters: their parts, and their steps.
% local params, score, text = require "params", require "score", require "expr_text"
% local gradients, mask = require "gpu_gradients", require "mask"
% local sm90 = spec.target == "sm90"
% if #gradients.reads > 0 then
/* Blocks that share the tiles of a head: fewer where each leaves much. */
static long long blocks_of_head(long long tiles, long long part_length) {
  long long most = ${gradients.most_blocks};
  while (most > ${gradients.few_blocks} && most * part_length > ${gradients.most_blocks * 4096})
    most /= 2;
  return tiles < most ? tiles : most;
}

% end
/* Where each part is that blocks leave, from `first` on if it is given; and of how many floats all
   of them are. */
static long long place_parts(gradient_args *args, const fa_problem *in, float *first) {
  long long floats = 0;
  const long long heads = in->batch * in->heads_q;
% for _, walk in ipairs(gradients.walks) do
%   local tile = walk.fixed == "k" and gradients.keys or gradients.queries
%   local tiles = string.format("(in->seqlen_%s + %d) / %d", walk.fixed, tile - 1, tile)
%   local shared = string.format("const long long %s = blocks_of_head(%s, %s);", walk.blocks, tiles,
%     gradients.part_length(walk))
  ${text.wrap(shared)}
  args->${walk.blocks} = (int)${walk.blocks};
% end
% local parts = {}
% for _, read in ipairs(gradients.reads) do
%   local count = "heads * " .. gradients.copies(read, read.blocks)
%   if read.kind == "row" or read.kind == "key" then
%     count = read.kind == "row" and "heads * in->seqlen_q" or "heads * in->seqlen_k"
%   elseif read.length then
%     count = count .. " * " .. gradients.row_length(read)
%   end
%   parts[#parts + 1] = { "args->parts." .. read.name, count }
% end
% if score.sink then parts[#parts + 1] = { "args->dsink", "heads" } end
% for _, part in ipairs(parts) do
  ${part[1]} = first ? first + floats : 0;
  ${text.wrap("floats += " .. part[2] .. ";")}
% end
  return floats;
}

typedef char arguments_fit_a_step[sizeof(gradient_args) <= 8 * FA_PLAN_ARG_WORDS ? 1 : -1];

/* Adds a step and gives its argument block. */
static void *add_entry(fa_plan *out, const char *entry, long long blocks, unsigned threads,
                       unsigned shared_bytes, unsigned arg_bytes) {
% if sm90 then
  fa_step *step = add_step(out, entry, blocks, (int)threads, arg_bytes);
  step->shared_bytes = shared_bytes;
% else
  add_step(out, entry, blocks, shared_bytes, arg_bytes);
  fa_step *step = &out->steps[out->num_steps - 1];
  step->block[0] = threads;
% end
  return step->args;
}
% local searched
% for _, walk in ipairs(gradients.walks) do searched = searched or walk.searched and walk end
% if searched then

static long long bounds_bytes(const fa_problem *in) {
  const long long tiles = (in->seqlen_k + ${gradients.keys - 1}) / ${gradients.keys};
  return in->batch * tiles * (long long)sizeof(tile_bounds);
}

/* Looks for the tiles of these kernels, whose sizes are others than main's. */
static const tile_bounds *add_gradient_search(fa_plan *out, const fa_problem *in) {
  search_args search;
  search.seqlen_q = (int)in->seqlen_q;
  search.seqlen_k = (int)in->seqlen_k;
  search.heads_q = (int)in->heads_q;
  search.fixed = ${gradients.keys};
  search.walked = ${gradients.queries};
  search.searched = add_part(out, in, "gradient bounds", bounds_bytes(in));
  set_parameters(&search.p, in);
  const long long blocks = bounds_bytes(in) / (long long)sizeof(tile_bounds);
  void *args = add_entry(
      out, "${spec.name}_search", blocks, 128, 0, sizeof search);
  *(search_args *)args = search;
  return search.searched;
}
% end
% if sm90 then

/* Of all that is added to the workspace here, rounded up. */
static long long gradient_bytes(const fa_problem *in) {
  gradient_args unused;
  return 4 * place_parts(&unused, in, 0)${searched and " + bounds_bytes(in)" or ""} + 2 * 256;
}
% end

/* The last steps of backward, empty where no gradient is wanted. d: of the preprocess. */
static void add_gradient_steps(fa_plan *out, const fa_problem *in, const float *d) {
  gradient_args args;
  args.batch = (int)in->batch;
  args.heads_q = (int)in->heads_q;
  args.seqlen_q = (int)in->seqlen_q;
  args.seqlen_k = (int)in->seqlen_k;
  set_parameters(&args.p, in);
  args.lse = in->lse;
  args.d = d;
  const long long bytes = 4 * place_parts(&args, in, 0);
  place_parts(&args, in, add_part(out, in, "parts of gradients", bytes));
% if #gradients.reads > 0 then
  set_tensor(&args.q, &in->q);
  set_tensor(&args.k, &in->k);
  set_tensor(&args.v, &in->v);
  set_tensor(&args.dout, &in->dout);
  args.softmax_scale = in->softmax_scale;
% end
  long long elements = 0; /* of the longest gradient that is wanted */
% for _, slot in ipairs(score.graded) do
%   local field = params.slots[slot + 1].field
  args.gradients.${field} = in->params[${slot}].grad;
%   local count = gradients.elements(slot, "args.")
  ${text.wrap("if (args.gradients." .. field .. " && elements < " .. count .. ")")}
    elements = ${count};
% end
  const long long heads = elements > 0 ? in->batch * in->heads_q : 0;
% for _, walk in ipairs(gradients.walks) do
%   if walk.searched then
  args.searched = add_gradient_search(out, in);
%   end
  gradient_args *${walk.fixed}_step = add_entry(
      out, "${spec.name}_${walk.entry}",
      heads * args.${walk.blocks}, ${32 * gradients.warps}, ${gradients.shared_bytes}, sizeof args);
  *${walk.fixed}_step = args;
% end
% if score.sink then
  gradient_args *sink_step = add_entry(
      out, "${spec.name}_sink", heads, 128, 0, sizeof args);
  *sink_step = args;
% end
  gradient_args *last_step = add_entry(
      out, "${spec.name}_gradients",
      (elements + 31) / 32, 256, 0, sizeof args);
  *last_step = args;
}
