% -- The argument blocks, declared alike in the kernels and in their launch plan.
% include "parameters.c.lua"
% include "gpu_search_args.cu.lua"
typedef struct forward_args {
  int seqlen_q, seqlen_k, heads_q;
  float softmax_scale;
  float *lse;       /* batch x heads_q x seqlen_q */
  unsigned heads;   /* batch x heads_q */
  int query_tiles;  /* of a head */
% if tiles.dynamic then
  unsigned section; /* heads whose tiles are taken together, longest first */
  unsigned *drawn;  /* tiles drawn beyond the first of each block; NULL: they go round the blocks */
% end
% if require("mask").searched "k" then
  const tile_bounds *searched; /* bounds of key tiles for each ROWS queries */
  int row_tiles;       /* such of a head */
% end
% if #require("params").slots > 0 then
  parameters p;
% end
} forward_args;
% if tiles.dynamic then

typedef struct clear_args {
  unsigned *drawn;
} clear_args;
% end
