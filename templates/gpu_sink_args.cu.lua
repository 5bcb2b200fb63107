% -- The argument block of the entries that make gradients of a sink's parameters.
% local params, score = require "params", require "score"
% if spec.pass == "bwd" and #score.graded > 0 then

typedef struct sink_args {
  int batch, heads_q, seqlen_q, seqlen_k;
  parameters p;
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dsink;         /* batch x heads_q: the gradient of a logit, rows summed */
  struct {
%   for _, slot in ipairs(score.graded) do
    float *${params.slots[slot + 1].field};
%   end
  } gradients; /* NULL where none is wanted */
} sink_args;
% end
