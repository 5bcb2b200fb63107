/* cpu_ops.c: the cpu primitives for one instruction set. Compiled once for each, with its -m flags
   and with CPU_OPS defined as the name of the table. All else is static, so that no function made
   for one processor can be linked into code for another. */
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "cpu_ops.h"
#include "cpu_vector.h"

#include "cpu_convert.inc.c"
#include "cpu_matmul.inc.c"
#include "cpu_softmax.inc.c"

static void zero(void *memory, long long bytes) {
  memset(memory, 0, (size_t)bytes);
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Spins for a few microseconds, then lets others run: threads may outnumber processors. */
static void await(const int *counter, int value) {
  int spins = 100;
  while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < value) {
    if (spins > 0)
      relax(), spins--;
    else
      sched_yield();
  }
}

static void advance(int *counter, int value) {
  __atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

static float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

static float mod(float a, float b) {
  return a - floorf(a / b) * b;
}

extern const fa_cpu_ops CPU_OPS;
const fa_cpu_ops CPU_OPS = {
    .load_f32 = load_f32,
    .load_f16 = load_f16,
    .load_bf16 = load_bf16,
    .transpose = transpose,
    .store_f32 = store_f32,
    .store_f16 = store_f16,
    .store_bf16 = store_bf16,
    .matmul = matmul,
    .online_softmax = online_softmax,
    .softmax_end = softmax_end,
    .probabilities = probabilities,
    .score_gradient = score_gradient,
    .dot_rows_f32 = dot_rows_f32,
    .dot_rows_f16 = dot_rows_f16,
    .dot_rows_bf16 = dot_rows_bf16,
    .zero = zero,
    .await = await,
    .advance = advance,
    .exp = expf,
    .log = logf,
    .tanh = tanhf,
    .sigmoid = sigmoid,
    .floor = floorf,
    .mod = mod,
};
