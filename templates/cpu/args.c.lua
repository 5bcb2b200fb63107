% -- The argument blocks, declared alike in the kernel and in its launch plan.
% local element = spec.dtype == "f32" and "float" or "unsigned short"
% local matrix = spec.dtype == "f32" and "" or "; the bits of " .. spec.dtype
typedef ${element} element; /* one value of a tensor${matrix} */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;

% if spec.pass == "fwd" then
typedef struct forward_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor q, k, v, o;
  float *lse; /* batch x heads_q x seqlen_q */
  float softmax_scale;
} forward_args;
% else
typedef struct preprocess_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor o, dout;
  const float *dlse; /* batch x heads_q x seqlen_q, or NULL */
  float *d;          /* batch x heads_q x seqlen_q: rowsum(dO * O) - dLSE */
  float *dq_sum;     /* batch x heads_q x seqlen_q x LD_QK, to be cleared */
  int *progress;     /* batch x heads_kv x key tiles, to be cleared */
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
} backward_args;

typedef struct convert_args {
  long long seqlen_q, heads_q;
  tensor dq;
  const float *dq_sum;
  float softmax_scale;
} convert_args;
% end
