% -- The PTX of the sm80 target: named wrappers of one instruction each, those that the pass calls.
% local forward, backward = spec.pass == "fwd", spec.pass == "bwd"
/* ---- PTX, one instruction each -----------------------------------------------------------------
 * Arithmetic on floats is asked for by name: no compiler option changes what is computed. */

#define DEVICE static __device__ __forceinline__

% include "gpu_arithmetic.cu.lua"
% if backward then

DEVICE float minimum(float a, float b) {
  float smaller;
  asm("min.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
  return smaller;
}
% end
% if forward or backward then

%   include "gpu_mma.cu.lua"
%   if backward or tiles.chunks_v > 1 then

/* The same, transposed: rows 2t and 2t + 1 of column g. */
DEVICE void load_matrices_transposed(unsigned (&m)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}
%   end
%   if forward and tiles.chunks_v % 2 == 1 then

/* Two 8 x 8 matrices, transposed. */
DEVICE void load_two_matrices_transposed(unsigned (&m)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(m[0]), "=r"(m[1])
               : "r"(address));
}
%   end

%   if backward then

DEVICE void copy_async_float(unsigned to, const float *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(to), "l"(from) : "memory");
}

DEVICE unsigned load_shared_word(unsigned address) {
  unsigned value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
%   end

/* threadIdx.x, read anew: what follows from it is then not kept in registers across a loop. */
DEVICE unsigned thread_index() {
  unsigned index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

/* The same value; what follows from it is worked out anew, not kept in registers across a loop. */
DEVICE unsigned anew(unsigned x) {
  unsigned same;
  asm volatile("mov.u32 %0, %1;" : "=r"(same) : "r"(x));
  return same;
}

/* An addition that the compiler cannot take apart: it would keep the offset of each row of a tile
 * in registers of its own. */
DEVICE const element *advance(const element *from, long long elements) {
  const element *to;
  asm("add.s64 %0, %1, %2;" : "=l"(to) : "l"(from), "l"(2 * elements));
  return to;
}

DEVICE void store_shared(unsigned address, unsigned value) {
  asm volatile("st.shared.b32 [%0], %1;" : : "r"(address), "r"(value) : "memory");
}

DEVICE uint4 load_shared(unsigned address) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}
%   if tiles.zero_fill then

DEVICE void clear_shared(unsigned address) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" : : "r"(address), "r"(0) : "memory");
}
%   end
% end
% if backward then

/* Adds four neighbouring floats in memory. */
%   if spec.arch >= 90 then
DEVICE void add_to_memory(float *to, const float (&values)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3])
               : "memory");
}
%   else
DEVICE void add_to_memory(float *to, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" : : "l"(to), "f"(value) : "memory");
}
%   end
%   if spec.deterministic then

/* The number of earlier calls. */
DEVICE int draw_ticket(int *counter) {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

/* What was written before the store is seen by whoever acquires the stored value. */
DEVICE void store_release(int *counter, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" : : "l"(counter), "r"(value) : "memory");
}

DEVICE int load_acquire(const int *counter) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
%   end
% end
% if not forward then
%   if spec.dtype == "f16" then

/* The two values of a 32-bit word. */
DEVICE float low_half(unsigned both) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)(both & 0xffff)));
  return value;
}

DEVICE float high_half(unsigned both) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)(both >> 16)));
  return value;
}
%   else

/* The two values of a 32-bit word: bf16 is the upper half of a float. */
DEVICE float low_half(unsigned both) { return __uint_as_float(both << 16); }
DEVICE float high_half(unsigned both) { return __uint_as_float(both & 0xffff0000); }
%   end
% end
