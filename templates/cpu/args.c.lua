% -- The argument blocks, declared alike in the kernel and in its launch plan.
% local element = spec.dtype == "f32" and "float" or "unsigned short"
% local matrix = spec.dtype == "f32" and "" or "; the bits of " .. spec.dtype
typedef ${element} element; /* one value of a tensor${matrix} */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;
% include "parameters.c.lua"

% local params, score = require "params", require "score"
% local has_params, graded = #params.slots > 0, spec.pass == "bwd" and score.graded or {}
% if #graded > 0 then

/* Where each block of main leaves what it adds to the gradients of parameters. */
typedef struct gradient_parts {
%   for _, slot in ipairs(graded) do
  float *${params.slots[slot + 1].field};
%   end
} gradient_parts;

% end
% if spec.pass == "fwd" then
typedef struct forward_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor q, k, v, o;
  float *lse; /* batch x heads_q x seqlen_q */
  float softmax_scale;
%   if has_params then
  parameters p;
%   end
} forward_args;
% else
typedef struct preprocess_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor o, dout;
  const float *dlse; /* batch x heads_q x seqlen_q, or NULL */
  float *d;          /* batch x heads_q x seqlen_q: rowsum(dO * O) - dLSE */
  float *dq_sum;     /* batch x heads_q x seqlen_q x LD_QK, to be cleared */
  int *progress;     /* batch x heads_kv x key tiles, to be cleared */
%   for _, field in ipairs(require("cpu.gradients").cleared) do
  float *${field}; /* batch x heads_q x seqlen_q, to be cleared */
%   end
} preprocess_args;
% end
% if spec.pass == "bwd" then

typedef struct backward_args {
  long long seqlen_q, seqlen_k, heads_q, heads_kv;
  tensor q, k, v, dout, dk, dv;
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dq_sum;        /* batch x heads_q x seqlen_q x LD_QK */
  int *progress;        /* batch x heads_kv x key tiles: query tiles behind each key tile */
  float softmax_scale;
%   if has_params then
  parameters p;
%   end
%   if #graded > 0 then
  gradient_parts parts;
%   end
} backward_args;

typedef struct convert_args {
  long long seqlen_q, heads_q;
  tensor dq;
  const float *dq_sum;
  float softmax_scale;
} convert_args;
%   if #graded > 0 then

typedef struct gradient_args {
  long long batch, seqlen_q, seqlen_k, heads_q, heads_kv;
  parameters p;
  gradient_parts parts, out; /* out: the gradients; NULL where none is wanted */
%     if score.sink then
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dsink;         /* batch x heads_q: gradient of each row's logit, rows summed */
%     end
} gradient_args;
%   end
% end
