% -- The argument block of every entry.
typedef struct probe_args {
  long long seqlen_q, seqlen_k, heads_q, shared_bytes;
  struct {
    unsigned short *data;
    long long stride_batch, stride_seq, stride_head;
  } from, to;
  float *lse; /* batch x heads_q x seqlen_q: out of forward, into backward */
  float *d;   /* likewise, in the workspace */
} probe_args;
