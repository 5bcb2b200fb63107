% -- Backward for tests of the runtime: D = LSE + 1 in the workspace, then dQ = dO where D is that, else
% -- 0: two steps, the second of which reads what the first wrote. dK and dV are left alone.
% include "probe/args.c.lua"

extern "C" __global__ void ${spec.name}_preprocess(const __grid_constant__ probe_args a) {
  const long long row = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const long long at = (batch * a.heads_q + head) * a.seqlen_q + row;
  if (threadIdx.x == 0) a.d[at] = a.lse[at] + 1.0f;
}

extern "C" __global__ void ${spec.name}_main(const __grid_constant__ probe_args a) {
  const long long row = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const long long at = (batch * a.heads_q + head) * a.seqlen_q + row;
  const unsigned short *from = a.from.data + batch * a.from.stride_batch +
                               row * a.from.stride_seq + head * a.from.stride_head;
  unsigned short *to = a.to.data + batch * a.to.stride_batch + row * a.to.stride_seq +
                       head * a.to.stride_head;
  const int right = a.d[at] == a.lse[at] + 1.0f;
  for (int c = threadIdx.x; c < ${spec.dim_qk}; c += blockDim.x) to[c] = right ? from[c] : 0;
}
