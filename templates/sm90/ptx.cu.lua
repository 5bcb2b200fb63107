% -- The PTX of the sm90 target: named wrappers of one instruction each.
% local operands = require "sm90.operands"
% local dtype = spec.dtype
% local forward = spec.pass == "fwd"
/* ---- PTX, one instruction each ------------------------------------------------------------------
 * Arithmetic on floats is asked for by name: no compiler option changes what is computed. */

#define DEVICE __device__ __forceinline__

% include "gpu_arithmetic.cu.lua"
% if forward then

DEVICE float minimum(float a, float b) {
  float smaller;
  asm("min.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
  return smaller;
}

/* Whether a > b; not if either is NaN. */
DEVICE bool exceeds(float a, float b) {
  unsigned yes;
  asm("{\n.reg .pred p;\n"
      "setp.gt.f32 p, %1, %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(yes)
      : "f"(a), "f"(b));
  return yes;
}
% end

/* x of lane 0, for values that all lanes share: the compiler then keeps them once for the warp. */
DEVICE unsigned uniform(unsigned x) { return __shfl_sync(0xffffffffu, x, 0); }
% if spec.pass == "fwd" and require("mask").searched "k" then

/* The same value, but what is computed from it is not kept from an earlier computation. */
DEVICE int afresh(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
% end

/* Registers of each thread of the warpgroup: given back, or taken from those given back. */
template <int count> DEVICE void registers_give_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}
template <int count> DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}

DEVICE unsigned shared_address(const void *pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

/* A barrier in shared memory: its phase ends with `count` arrivals and all bytes announced. */
DEVICE void mbarrier_init(unsigned barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(count) : "memory");
}
DEVICE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
DEVICE void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
DEVICE void mbarrier_arrive_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(barrier), "r"(bytes)
               : "memory");
}
/* Whether the phase of this parity has ended; waits a while for it. */
DEVICE bool mbarrier_try_wait(unsigned barrier, unsigned parity) {
  unsigned ended;
  asm volatile("{\n.reg .pred p;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(ended)
               : "r"(barrier), "r"(parity)
               : "memory");
  return ended;
}

DEVICE void mbarrier_wait(unsigned barrier, unsigned parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}
% if not forward or tiles.turns then

/* Barriers of warps by number: `threads` arrive, those of sync wait for all. */
DEVICE void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}
% if forward or not tiles.wide then
DEVICE void named_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}
% end
% end

/* A box of a tensor to or from shared memory. Outside the tensor it reads 0 and writes nothing. */
DEVICE void tma_load(unsigned to, const tensor_map &map, int column, int row, int head, int batch,
                     unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6];"
               :
               : "r"(to), "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier)
               : "memory");
}
DEVICE void tma_store(const tensor_map &map, int column, int row, int head, int batch,
                      unsigned from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
               "[%0, {%1, %2, %3, %4}], [%5];"
               :
               : "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(from)
               : "memory");
}
/* Closes the group of the stores since the last one. */
DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" : : : "memory"); }
/* Waits until all but the newest `pending` groups of this thread have read their shared memory. */
template <int pending> DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(pending) : "memory");
}
DEVICE void tma_prefetch(const tensor_map &map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}
/* Shows this thread's writes of shared memory to TMA and wgmma. */
DEVICE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
% if not forward or tiles.dynamic then

/* Waits until the launch before this one in the stream has ended. */
DEVICE void launch_wait() { asm volatile("griddepcontrol.wait;" : : : "memory"); }
% end
% if forward and tiles.dynamic then

/* Lets the next launch of the stream begin, as far as it does not wait for this one. */
DEVICE void launch_next() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }

/* The number of earlier calls. */
DEVICE unsigned draw_ticket(unsigned *counter) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}
% end
% if not forward or spec.dim_v >= 16 then

/* Four 8 x 8 matrices of 16-bit values, rows to the addresses of lanes 0-7, 8-15, 16-23, 24-31. */
DEVICE void store_matrices(unsigned address, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
% end
% if forward and tiles.q_registers then

/* Four such matrices from shared memory, a word of each. */
DEVICE void load_matrices(unsigned *to, unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
% end
% if forward and spec.dim_v % 16 ~= 0 then

/* Two, rows to the addresses of lanes 0-7 and 8-15. */
DEVICE void store_two_matrices(unsigned address, unsigned a, unsigned b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
               :
               : "r"(address), "r"(a), "r"(b)
               : "memory");
}
% end

/* Before products whose registers were written since the last ones, or after a wait in a loop. */
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
/* Closes the group of the products since the last one. */
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
/* Waits for all but the newest `pending` groups; d, an accumulator of theirs, may then be read. */
template <int pending, int count> DEVICE void wgmma_wait(float (&d)[count]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+f"(d[i]) : : "memory");
}
% if forward then
%   for _, keys in ipairs(tiles.key_tiles) do
%     local count = keys // 2
%     if tiles.q_shared then

/* d = or += Q K^T: 64 queries x ${keys} keys, 16 columns of Q and K, both in shared memory. */
DEVICE void wgmma_scores(float (&d)[${count}], descriptor q, descriptor k, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %${count + 2}, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n${keys}k16.f32.${dtype}.${dtype} {"
               ${operands.registers(count)}
               "}, %${count}, %${count + 1}, p, 1, 1, 0, 0;\n}\n"
               :
               ${operands.accumulators(count)}
               : "l"(q), "l"(k), "r"(accumulate));
}
%     end
%     if tiles.q_registers then

/* d = or += Q K^T: 64 queries x ${keys} keys, 16 columns, Q in registers, K in shared memory. */
DEVICE void wgmma_scores(float (&d)[${count}], const unsigned *q, descriptor k, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %${count + 5}, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n${keys}k16.f32.${dtype}.${dtype} {"
               ${operands.registers(count)}
               "}, {%${count}, %${count + 1}, %${count + 2}, %${count + 3}}, %${count + 4}, p, 1, 1, 0;\n}\n"
               :
               ${operands.accumulators(count)}
               : "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]), "l"(k), "r"(accumulate));
}
%     end
%   end
%   local count = spec.dim_v // 2

/* d = or += P V: 64 queries x ${spec.dim_v} columns, 16 keys, P in registers, V in shared memory. */
DEVICE void wgmma_output(float (&d)[${count}], const unsigned *p, descriptor v, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %${count + 5}, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n${spec.dim_v}k16.f32.${dtype}.${dtype} {"
               ${operands.registers(count)}
               "}, {%${count}, %${count + 1}, %${count + 2}, %${count + 3}}, %${count + 4}, p, 1, 1, 1;\n}\n"
               :
               ${operands.accumulators(count)}
               : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v), "r"(accumulate));
}
% end
% if not forward then

%   include "sm90/ptx_bwd.cu.lua"
% end
