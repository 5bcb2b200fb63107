% -- The argument blocks of backward, declared alike in the kernels and in their launch plan.
typedef unsigned short element; /* one value of a tensor: the bits of ${spec.dtype} */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;

% include "parameters.c.lua"
% include "gpu_search_args.cu.lua"
typedef struct preprocess_args {
  int seqlen_q, heads_q;
  tensor o, dout;
  const float *dlse; /* batch x heads_q x seqlen_q, or NULL */
  float *d;          /* batch x heads_q x seqlen_q: rowsum(dO * O) - dLSE */
  float *dq_sum;     /* sums x DQ_FLOATS, to be cleared */
  long long sums;
  int *counters; /* of backward, to be cleared */
  long long count;
} preprocess_args;
% if spec.pass == "bwd" then

typedef struct backward_args {
%   if tiles.short then
  const float *lse;  /* batch x heads_q x seqlen_q */
  float *d;          /* like lse; of the one launch, blocks x rows of query tiles: -D, to be kept */
  const float *dlse; /* for the one launch, which has no d: like lse, or NULL */
  float *dq_sum;     /* batch x heads_q, or blocks of the one launch, x query tiles x DQ_FLOATS */
%   else
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dq_sum;        /* batch x heads_q x query tiles x DQ_FLOATS */
%   end
  int *started; /* blocks */
%   if spec.deterministic then
  int *turns; /* a place x TURNS: turns passed */
%   end
  int *done;     /* for each pair, parts of dQ added; NULL: a launch of its own converts dQ */
  unsigned ring; /* pairs whose sums of dQ have memory at a time */
  unsigned converters; /* blocks that convert dQ of a pair, where `done` is given */
  tensor dq;
  int seqlen_q, seqlen_k, heads_q, heads_kv;
  unsigned pairs;   /* batch x heads_kv */
%   if tiles.divided then
  unsigned parts;         /* of a group, each taken by a block of its own */
  int members;            /* heads of a part */
  float *dk_sum, *dv_sum; /* batch x heads_kv x seqlen_k x columns, of more than one part */
  unsigned section;       /* parts of pairs whose key tiles are taken together */
%   else
  unsigned section; /* pairs whose key tiles are taken together */
%   end
  float softmax_scale;
  float exponent_scale; /* softmax_scale in exponents of 2 */
%   if require("mask").searched "q" then
  const tile_bounds *searched; /* bounds of query tiles for each key tile */
%     if tiles.longest_first then
  const int *order; /* of the key tiles of a batch entry */
%     end
%   end
%   if #require("params").slots > 0 then
  parameters p;
%   end
} backward_args;

typedef struct convert_args {
  int seqlen_q, heads_q;
  float softmax_scale;
  tensor dq;
  const float *dq_sum;
%   if tiles.divided then
  int seqlen_k, heads_kv;
  unsigned key_blocks; /* the first ones, for dK and dV */
  long long key_rows;  /* of all heads */
  tensor dk, dv;
  const float *dk_sum, *dv_sum; /* as above */
%   end
} convert_args;
% end
% include "gpu_gradients_args.cu.lua"
