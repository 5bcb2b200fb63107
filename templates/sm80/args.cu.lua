% -- The argument blocks, declared alike in the kernel and in its launch plan.
typedef unsigned short element; /* one value of a tensor: the bits of ${spec.dtype} */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;

/* A number to divide by: n / number = n * magic >> shift for n below 2^31. */
typedef struct divisor {
  unsigned number, magic;
  int shift;
} divisor;

% include "parameters.c.lua"
% include "gpu_search_args.cu.lua"
% local has_params = #require("params").slots > 0
% if spec.pass == "fwd" then
typedef struct forward_args {
  int seqlen_q, seqlen_k, key_tiles;
  divisor query_tiles, heads_q, heads_kv;
  float softmax_scale;
  float exponent_scale; /* turns a score into an exponent of 2 */
  tensor q, k, v, o;
  float *lse; /* batch x heads_q x seqlen_q */
%   if require("mask").searched "k" then
  const tile_bounds *searched; /* bounds of key tiles for each query tile */
%   end
%   if has_params then
  parameters p;
%   end
} forward_args;
% else
typedef struct preprocess_args {
  int seqlen_q;
  divisor query_tiles, heads_q; /* at least 1 */
  tensor o, dout;
  const float *dlse; /* batch x heads_q x seqlen_q, or NULL */
  float *d;          /* batch x heads_q x seqlen_q: rowsum(dO * O) - dLSE */
  float *dq_sum;     /* batch x heads_q x query tiles x DQ_FLOATS, to be cleared */
  int *turns;        /* counters of backward under det, to be cleared */
  long long counters;
} preprocess_args;
% end
% if spec.pass == "bwd" then

typedef struct backward_args {
  int seqlen_q, seqlen_k, query_tiles;
  divisor key_tiles, heads_q, heads_kv;
%   if spec.deterministic then
  divisor pairs; /* batch x heads_kv */
%   end
  float softmax_scale;
  float exponent_scale; /* turns a score into an exponent of 2 */
  tensor q, k, v, dout, dk, dv;
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dq_sum;        /* batch x heads_q x query tiles x DQ_FLOATS */
%   if spec.deterministic then
  int *turns; /* how many blocks have started; then pairs x key tiles: turns passed */
%   end
%   if require("mask").searched "q" then
  const tile_bounds *searched; /* bounds of query tiles for each key tile */
%   end
%   if has_params then
  parameters p;
%   end
} backward_args;

typedef struct convert_args {
  int seqlen_q;
  divisor query_tiles, heads_q;
  float softmax_scale;
  tensor dq;
  const float *dq_sum;
} convert_args;
% end
% include "gpu_gradients_args.cu.lua"
