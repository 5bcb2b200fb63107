/* cpu_ops.c: the cpu primitives for one instruction set. Compiled once for each, with its -m flags
   and with CPU_OPS set to the name of the table, the only thing that is not static: nothing
   compiled for one processor can be linked into another's path. */
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

/* Spins for some microseconds, then lets others run: there may be more threads than processors. */
static void await(const int *counter, int value) {
  enum { SPINS = 1000 };
  for (int spin = 0; __atomic_load_n(counter, __ATOMIC_ACQUIRE) < value; spin++)
    if (spin >= SPINS) sched_yield();
}

static void advance(int *counter, int value) {
  __atomic_store_n(counter, value, __ATOMIC_RELEASE);
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
};
