/* search_on_cpu.h: what stands in for CUDA, so that an emitted search for tiles runs on the
   processor; and tables of parameters. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define DEVICE static
struct int4 {
  int x, y, z, w;
};
struct place_of_thread {
  int x;
};
static place_of_thread threadIdx, blockIdx;
static void __syncthreads() {} /* threads run one after the other, the one that sums up last */

[[maybe_unused]] static int min(int a, int b) {
  return a < b ? a : b;
}
[[maybe_unused]] static int max(int a, int b) {
  return a > b ? a : b;
}
[[maybe_unused]] static int is_less(float a, float b) {
  return a < b;
}
[[maybe_unused]] static float multiply(float a, float b) {
  return a * b;
}

enum { BATCH = 2, HEADS = 2 };

static int draw(int low, int high) {
  return low + (high > low ? std::rand() % (high - low + 1) : 0);
}

/* Tables of i32; ascending ones give tiles that are empty and full. */
struct tables {
  std::vector<std::vector<int>> all;
  const int *draw(int count, int low, int high, bool ascending) {
    std::vector<int> values(count);
    for (int i = 0; i < count; ++i)
      values[i] =
          ascending ? low + (int)((long long)i * (high - low + 1) / count) : ::draw(low, high);
    all.push_back(values);
    return all.back().data();
  }
};
