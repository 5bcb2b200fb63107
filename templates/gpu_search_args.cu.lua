% -- The argument block of the entry that looks for the tiles a mask leaves.
% local mask, params = require "mask", require "params"
% if mask.searched(spec.pass == "fwd" and "k" or "q") and spec.pass ~= "pre" then

typedef struct search_args {
  int seqlen_q, seqlen_k, heads_q;
  int fixed, walked; /* positions of a tile: of the axis that a block stays on, and of the other */
  int *searched;     /* of each tile: first and last + 1 that are not empty, about those full */
%   if #params.slots > 0 then
  parameters p;
%   end
} search_args;
% end
