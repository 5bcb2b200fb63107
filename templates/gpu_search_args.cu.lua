% -- What is looked for before a kernel walks the tiles that a mask leaves, and what the search takes.
% local mask, params = require "mask", require "params"
% if mask.searched(spec.pass == "fwd" and "k" or "q") and spec.pass ~= "pre" then

/* The tiles to walk: from begin to end, of which full ones need no mask, and those of the gap are
 * empty like all outside. */
typedef struct tile_bounds {
  int begin, full_begin, full_end, end, gap_begin, gap_end;
} tile_bounds;

typedef struct search_args {
  int seqlen_q, seqlen_k, heads_q;
  int fixed, walked; /* positions of a tile: of the axis that a block stays on, and of the other */
  tile_bounds *searched; /* of each tile of the first */
%   if tiles.longest_first then
  int *order; /* of these, for each batch entry: the longest walk first */
%   end
%   if #params.slots > 0 then
  parameters p;
%   end
} search_args;
% end
