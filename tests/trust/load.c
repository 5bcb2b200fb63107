/* load.c: calls of fa_forward a second, from 1, 2 and 8 threads on one context whose kernels are all
   there: what the library itself costs before the GPU has anything to do. The driver is one that
   runs nothing (runtime/fake_cuda.c). The median of so many rounds, and their range. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/child_build.h"
#include "runtime/fake_cuda.h"
#include "trust/report.h"

enum { MOST_THREADS = 8, ROUNDS = 5, CALLS = 200000, DIMS = 8, BYTES = 1 << 16 };

static fa_context *context;
static _Alignas(256) char memory[BYTES];
static pthread_barrier_t start;
static int num_threads;

static void need(fa_status status) {
  if (!status) return;
  fprintf(stderr, "%s\n", fa_error_message());
  exit(1);
}

/* Eight kernels in turn. */
static fa_args make_args(int number) {
  fa_args args = FA_ARGS_INIT;
  int dim = 8 * (number % DIMS + 1);
  args.batch = 1;
  args.heads_q = args.heads_kv = 2;
  args.seqlen_q = args.seqlen_k = 5;
  args.dtype = FA_BF16;
  args.dim_qk = dim;
  args.target = FA_TARGET_SM80;
  args.q = fa_bshd(memory, 5, 2, dim);
  args.k = fa_bshd(memory + 8192, 5, 2, dim);
  args.v = fa_bshd(memory + 16384, 5, 2, dim);
  args.o = fa_bshd(memory + 24576, 5, 2, dim);
  args.lse = (float *)(memory + 32768);
  return args;
}

static void *call(void *unused) {
  fa_args args[DIMS];
  (void)unused;
  for (int i = 0; i < DIMS; ++i) args[i] = make_args(i);
  pthread_barrier_wait(&start);
  for (int i = 0; i < CALLS / num_threads; ++i) need(fa_forward(context, &args[i % DIMS], NULL));
  return NULL;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double calls_a_second(int threads) {
  pthread_t all[MOST_THREADS];
  num_threads = threads;
  pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; ++i)
    if (pthread_create(&all[i], NULL, call, NULL)) abort();
  pthread_barrier_wait(&start);
  double begin = seconds();
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  double taken = seconds() - begin;
  pthread_barrier_destroy(&start);
  return CALLS / threads * threads / taken;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(void) {
  static const int threads[] = {1, 2, MOST_THREADS};
  double rates[3][ROUNDS];
  fa_options options = FA_OPTIONS_INIT;
  alarm(300);
  options.backend = FA_CUDA;
  options.nvrtc = FAKE_NVRTC;
  options.cache_dir = "";
  need(fa_context_create(&context, &options));
  fake_add_memory(memory, sizeof memory, CU_MEMORYTYPE_DEVICE, 0, NULL, 0);
  fake.is_quiet = 1;
  for (int i = 0; i < DIMS; ++i) {
    fa_args args = make_args(i);
    need(fa_forward(context, &args, NULL));
  }
  for (int round = 0; round < ROUNDS; ++round)
    for (int i = 0; i < 3; ++i) rates[i][round] = calls_a_second(threads[i]);
  printf("%ld processors\n", sysconf(_SC_NPROCESSORS_ONLN));
  for (int i = 0; i < 3; ++i) {
    qsort(rates[i], ROUNDS, sizeof rates[i][0], ascending);
    printf("%d threads: %.2f million calls a second (%.2f to %.2f)\n", threads[i],
           rates[i][ROUNDS / 2] / 1e6, rates[i][0] / 1e6, rates[i][ROUNDS - 1] / 1e6);
    report_line("load %d %.2f", threads[i], rates[i][ROUNDS / 2] / 1e6);
  }
  fa_context_destroy(context);
  return 0;
}
