% -- PTX that only backward needs, and its products: one instruction a wrapper.
% local dtype = spec.dtype
% local operands = require "sm90.operands"
/* Lets the next launch of the stream begin, as far as it does not wait for this one. */
DEVICE void launch_next() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }
% if spec.pass == "bwd" then

/* From L2, where additions to memory are made. */
DEVICE float4 load_coherent(const float4 *from) {
  float4 quad;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(quad.x), "=f"(quad.y), "=f"(quad.z), "=f"(quad.w)
               : "l"(from)
               : "memory");
  return quad;
}
%   if tiles.wide then

/* Adds four floats to memory. */
DEVICE void add_to_memory(float *to, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
%     if tiles.divided then
DEVICE void add_to_memory(float *to, float a) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" : : "l"(to), "f"(a) : "memory");
}
%     end
%   else
%     if tiles.divided then

/* Adds two floats to memory. */
DEVICE void add_to_memory(float *to, float a, float b) {
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};"
               :
               : "l"(to), "f"(a), "f"(b)
               : "memory");
}
%     end

/* Adds floats that lie in shared memory to memory. */
DEVICE void bulk_add(float *to, unsigned from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
               :
               : "l"(to), "r"(from), "r"(bytes)
               : "memory");
}
/* Waits until all additions of this thread have arrived. */
DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" : : : "memory"); }

%     if tiles.short then
/* What L2 is to do with data: give its place away last, or first. */
DEVICE unsigned long long kept() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
DEVICE unsigned long long read_once() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

DEVICE void tma_load(unsigned to, const tensor_map &map, int column, int row, int head, int batch,
                     unsigned barrier, unsigned long long policy) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;"
               :
               : "r"(to), "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier),
                 "l"(policy)
               : "memory");
}
DEVICE void bulk_add(float *to, unsigned from, int bytes, unsigned long long policy) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 "
               "[%0], [%1], %2, %3;"
               :
               : "l"(to), "r"(from), "r"(bytes), "l"(policy)
               : "memory");
}
/* Copies memory from shared memory, or to it; the barrier is told of the bytes that have come. */
DEVICE void bulk_store(float *to, unsigned from, int bytes, unsigned long long policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;"
               :
               : "l"(to), "r"(from), "r"(bytes), "l"(policy)
               : "memory");
}
DEVICE void bulk_load(unsigned to, const float *from, int bytes, unsigned barrier,
                      unsigned long long policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
               "[%0], [%1], %2, [%3], %4;"
               :
               : "r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
               : "memory");
}

DEVICE float4 load_shared_quad(unsigned from) {
  float4 quad;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(quad.x), "=f"(quad.y), "=f"(quad.z), "=f"(quad.w)
               : "r"(from)
               : "memory");
  return quad;
}
DEVICE float load_shared_float(unsigned from) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
  return x;
}
DEVICE void store_shared_float(unsigned to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" : : "r"(to), "f"(x) : "memory");
}
DEVICE uint4 load_shared_unit(unsigned from) {
  uint4 unit;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(unit.x), "=r"(unit.y), "=r"(unit.z), "=r"(unit.w)
               : "r"(from)
               : "memory");
  return unit;
}
%     end
%     if require("sm90.walk_bwd").heads_inside then
DEVICE void bulk_prefetch(const float *from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(from), "r"(bytes) : "memory");
}
%     end
%     if tiles.short or require("sm90.walk_bwd").heads_inside then
DEVICE unsigned load_shared_word(unsigned from) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}
%     end
DEVICE float2 load_shared_pair(unsigned from) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(from));
  return pair;
}
DEVICE void store_shared_quad(unsigned to, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
/* Four 8 x 8 matrices of 16-bit values, rows from the addresses of lanes 0-7, 8-15 and so on. */
DEVICE void load_matrices(unsigned (&d)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}
%   end

/* The number of earlier calls. */
DEVICE unsigned draw_ticket(int *counter) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

DEVICE int load_acquire(const int *from) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
/* Like draw_ticket, after all that this thread has written or seen written. */
DEVICE int count_released(int *counter) {
  int before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}
DEVICE void store_release(int *to, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}
%   if tiles.wide and spec.deterministic then
DEVICE int load_shared_acquire(unsigned from) {
  int value;
  asm volatile("ld.acquire.cta.shared.s32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}
DEVICE void store_shared_release(unsigned to, int value) {
  asm volatile("st.release.cta.shared.s32 [%0], %1;" : : "r"(to), "r"(value) : "memory");
}
%   end
%   if not tiles.wide then
/* Between this thread's accesses to memory and those that TMA does for it, either way. */
DEVICE void proxy_fence_global() { asm volatile("fence.proxy.async.global;" : : : "memory"); }
%   end
%   if tiles.odd_columns then

DEVICE void store_two_matrices(unsigned address, unsigned a, unsigned b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
               :
               : "r"(address), "r"(a), "r"(b)
               : "memory");
}
%   end
/* Each matrix transposed. */
DEVICE void store_transposed_matrices(unsigned address, unsigned a, unsigned b, unsigned c,
                                      unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

%   if tiles.short or require("mask").searched "q" then

/* The same value, but what is computed from it is not kept from an earlier computation. */
DEVICE int afresh(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
%   end
%   if not tiles.wide then

/* Accumulators are written before this, not while products are under way. */
template <int count> DEVICE void pin(float (&c)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+f"(c[i]) : : "memory");
}
%   end

/* d, 64 rows, = or += 16 steps of a sum. Of the operands, n stands as the product is written, t
   transposed, both in shared memory; r is in registers. */
%   local function product(left, right, columns)
%     local count = columns // 2
%     local transposed = right == "n" and 1 or 0
%     if left == "r" then
DEVICE void wgmma_r${right}(float (&d)[${count}], const unsigned *a, descriptor b, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %${count + 5}, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n${columns}k16.f32.${dtype}.${dtype} {"
               ${operands.registers(count)}
               "}, {%${count}, %${count + 1}, %${count + 2}, %${count + 3}}, %${count + 4}, p, 1, 1, ${transposed};\n}\n"
               :
               ${operands.accumulators(count)}
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
%     else
DEVICE void wgmma_${left}${right}(float (&d)[${count}], descriptor a, descriptor b, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %${count + 2}, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n${columns}k16.f32.${dtype}.${dtype} {"
               ${operands.registers(count)}
               "}, %${count}, %${count + 1}, p, 1, 1, ${left == "t" and 1 or 0}, ${transposed};\n}\n"
               :
               ${operands.accumulators(count)}
               : "l"(a), "l"(b), "r"(accumulate));
}
%     end
%   end
%   for _, each in ipairs(tiles.products) do
${capture(product, each.left, each.right, each.columns)}
%   end
% end
