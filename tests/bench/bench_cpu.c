/* bench_cpu.c: what the cpu target takes: rendering, compiling, dispatch, and GFLOP/s by head
   dimension on one thread. Every figure is the median of its runs, with the smallest and the largest.
   Prints a Markdown table; through the public API only. */
#include <fagen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 7, HEADS = 4, DISPATCHES = 1000000 };

typedef struct sample {
  double value[RUNS];
} sample;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void need(fa_status status) {
  if (!status) return;
  fprintf(stderr, "bench_cpu: %s: %s\n", fa_status_name(status), fa_error_message());
  exit(1);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_row(const char *what, const char *unit, sample *s) {
  qsort(s->value, RUNS, sizeof *s->value, by_value);
  printf("| %s | %.4g %s | %.4g to %.4g |\n", what, s->value[RUNS / 2], unit, s->value[0],
         s->value[RUNS - 1]);
}

static fa_context *open_context(int threads) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *context;
  options.backend = FA_CPU;
  options.threads = threads;
  need(fa_context_create(&context, &options));
  return context;
}

/* A fresh context each time: nothing is cached. */
static void measure_build(const char *words) {
  sample render, compile;
  for (int i = 0; i < RUNS; ++i) {
    fa_context *context = open_context(1);
    fa_spec spec = FA_SPEC_INIT;
    fa_kernel_info info = FA_KERNEL_INFO_INIT;
    const fa_kernel *kernel;
    need(fa_spec_parse(&spec, words));
    need(fa_get_kernel(&kernel, context, &spec));
    need(fa_kernel_info_get(&info, kernel));
    render.value[i] = info.render_ms;
    compile.value[i] = info.compile_ms;
    fa_context_destroy(context);
  }
  char what[128];
  snprintf(what, sizeof what, "render `%s` (Lua)", words);
  print_row(what, "ms", &render);
  snprintf(what, sizeof what, "compile `%s` (libtcc)", words);
  print_row(what, "ms", &compile);
}

static void measure_dispatch(void) {
  fa_context *context = open_context(1);
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  sample ns;
  need(fa_spec_parse(&spec, "bwd cpu bf16 d128 gqa4 causal"));
  need(fa_get_kernel(&kernel, context, &spec));
  for (int i = 0; i < RUNS; ++i) {
    double start = seconds();
    for (int n = 0; n < DISPATCHES; ++n) need(fa_get_kernel(&kernel, context, &spec));
    ns.value[i] = (seconds() - start) * 1e9 / DISPATCHES;
  }
  print_row("`fa_get_kernel` of a kernel that is there", "ns", &ns);
  fa_context_destroy(context);
}

typedef struct problem {
  fa_args args;
  float *memory;
} problem;

static problem make_problem(int seqlen, int dim, int causal) {
  enum { TENSORS = 8 };
  size_t each = (size_t)seqlen * HEADS * (size_t)dim;
  problem p = {.args = FA_ARGS_INIT,
               .memory = malloc((each * TENSORS + (size_t)seqlen * HEADS) * 4)};
  if (!p.memory) exit(1);
  for (size_t i = 0; i < each * TENSORS; ++i) p.memory[i] = (float)(drand48() * 4 - 2);
  fa_tensor *const tensors[TENSORS] = {&p.args.q,    &p.args.k,  &p.args.v,  &p.args.o,
                                       &p.args.dout, &p.args.dq, &p.args.dk, &p.args.dv};
  for (int i = 0; i < TENSORS; ++i) *tensors[i] = fa_bshd(p.memory + i * each, seqlen, HEADS, dim);
  p.args.lse = p.memory + each * TENSORS;
  p.args.batch = 1;
  p.args.heads_q = p.args.heads_kv = HEADS;
  p.args.seqlen_q = p.args.seqlen_k = seqlen;
  p.args.dim_qk = dim;
  p.args.dtype = FA_F32;
  p.args.causal = causal;
  return p;
}

/* FLOPs as everybody counts them: 4 S S D a head forward, 2.5 times that backward, half of it causal. */
static void measure_speed(fa_context *context, int seqlen, int dim, int causal) {
  problem p = make_problem(seqlen, dim, causal);
  double flops = 4.0 * seqlen * seqlen * dim * HEADS * (causal ? 0.5 : 1.0);
  sample forward, backward;
  need(fa_forward(context, &p.args, NULL));
  need(fa_backward(context, &p.args, NULL));
  for (int i = 0; i < RUNS; ++i) {
    double start = seconds();
    need(fa_forward(context, &p.args, NULL));
    double middle = seconds();
    need(fa_backward(context, &p.args, NULL));
    forward.value[i] = flops / (middle - start) * 1e-9;
    backward.value[i] = 2.5 * flops / (seconds() - middle) * 1e-9;
  }
  char what[128];
  snprintf(what, sizeof what, "forward f32 D = %d, S = %d, %s", dim, seqlen,
           causal ? "causal" : "full");
  print_row(what, "GFLOP/s", &forward);
  snprintf(what, sizeof what, "backward f32 D = %d, S = %d, %s", dim, seqlen,
           causal ? "causal" : "full");
  print_row(what, "GFLOP/s", &backward);
  free(p.memory);
}

int main(void) {
  static const int dims[] = {40, 64, 80, 96, 128, 256};
  fa_context *context = open_context(1);
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  need(fa_context_info_get(&info, context));
  printf("| cpu target, one thread, %s | median of %d | spread |\n|---|---|---|\n", info.simd,
         RUNS);
  measure_build("fwd cpu f32 d64");
  measure_build("bwd cpu bf16 d128 gqa4 causal");
  measure_dispatch();
  for (size_t i = 0; i < sizeof dims / sizeof *dims; ++i) measure_speed(context, 1024, dims[i], 0);
  measure_speed(context, 1024, 64, 1);
  measure_speed(context, 4096, 128, 1);
  fa_context_destroy(context);
  return 0;
}
