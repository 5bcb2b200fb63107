% -- The argument block of the entries that make gradients of parameters.
% local params, score = require "params", require "score"
% if spec.pass == "bwd" and #score.graded > 0 then
%   local gradients = require "gpu_gradients"

typedef struct gradient_args {
  int batch, heads_q, seqlen_q, seqlen_k;
  parameters p;
  const float *lse, *d; /* batch x heads_q x seqlen_q */
%   if score.sink then
  float *dsink; /* batch x heads_q: the gradient of a logit, rows summed */
%   end
%   if #gradients.reads > 0 then
  tensor q, k, v, dout;
  float softmax_scale;
%     for _, walk in ipairs(gradients.walks) do
  int ${walk.blocks}; /* that share the ${walk.fixed == "q" and "query" or "key"} tiles of a head */
%       if walk.searched then
  const tile_bounds *searched; /* bounds of query tiles for each key tile */
%       end
%     end
  struct { /* of each sum, what a block leaves */
%     for _, read in ipairs(gradients.reads) do
    float *${read.name};
%     end
  } parts;
%   end
  struct {
%   for _, slot in ipairs(score.graded) do
    float *${params.slots[slot + 1].field};
%   end
  } gradients; /* NULL where none is wanted */
} gradient_args;
% end
