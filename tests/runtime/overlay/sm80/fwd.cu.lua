% -- Forward for tests of the runtime: O = Q and LSE = seqlen_k, so that one look tells what ran.
% local probe = tiles.probe
% include "probe/args.c.lua"
% if probe.map then

struct __align__(128) tensor_map {
  unsigned long long opaque[16];
};
% end

extern "C" __global__ void ${spec.name}_main(
% if probe.map then
    const __grid_constant__ tensor_map map,
% end
    const __grid_constant__ probe_args a) {
  const long long row = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const unsigned short *from = a.from.data + batch * a.from.stride_batch +
                               row * a.from.stride_seq + head * a.from.stride_head;
  unsigned short *to = a.to.data + batch * a.to.stride_batch + row * a.to.stride_seq +
                       head * a.to.stride_head;
% if probe.shared then
  extern __shared__ unsigned short shared[];
  const long long last = a.shared_bytes / 2 - 1;
% end
% if probe.error then
  undeclared = 1;
% end
  for (int c = threadIdx.x; c < ${spec.dim_qk}; c += blockDim.x) {
% if probe.shared then
    shared[last - c] = from[c];
    to[c] = shared[last - c];
% else
    to[c] = from[c];
% end
  }
  if (threadIdx.x == 0)
    a.lse[(batch * a.heads_q + head) * a.seqlen_q + row] = (float)a.seqlen_k;
}
% if probe.cluster then

extern "C" __global__ void ${spec.name}_after(const __grid_constant__ probe_args a) {
  const long long row = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (threadIdx.x == 0)
    a.lse[(batch * a.heads_q + head) * a.seqlen_q + row] += 0.5f;
}
% end
% if probe.spill then

/* All of v is alive at once, in the 64 registers that 1024 threads leave each. */
extern "C" __global__ __launch_bounds__(1024) void ${spec.name}_spill(
    const __grid_constant__ probe_args a) {
  __shared__ float shared[100];
  float v[96], sum = 0;
#pragma unroll
  for (int i = 0; i < 96; ++i) v[i] = a.lse[i * threadIdx.x];
  shared[threadIdx.x % 100] = v[0];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) sum += v[i] * v[95 - i] + shared[i];
#pragma unroll
  for (int i = 0; i < 96; ++i) a.lse[i * threadIdx.x] = v[i] * sum;
}
% end
