/* bench_build.c: what a GPU kernel takes before it can be launched, on a machine without a GPU:
   rendering and NVRTC in a cold process; finding, reading and checking the disk entry and compiling
   its plan in a warm one. Every start is a process of its own, and a figure the median of its runs.
   Prints a Markdown table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/error.h"
#include "gen/spec.h"
#include "runtime/clock.h"
#include "runtime/cuda_build.h"
#include "runtime/jit.h"

enum { RUNS = 11, COLD_RUNS = 3 };

/* The milliseconds of one start. */
typedef struct start {
  fa_status status;
  double render, compile, read, plan, all;
  double kilobytes;
  char message[256];
} start;

static char folder[] = "/tmp/fagen_bench_XXXXXX";

static fa_status compile_plan(const cuda_binary *binary) {
  const render_text text = {.text = binary->launch_source};
  const jit_unit unit = {"launch.c", &text};
  jit *code;
  fa_status status = jit_compile(&code, &unit, 1);
  if (status) return status;
  jit_seal(code);
  jit_free(code);
  return FA_OK;
}

static void run_here(start *out, const char *words) {
  fa_spec spec = FA_SPEC_INIT, canonical;
  cuda_binary binary;
  out->status = fa_spec_parse(&spec, words);
  if (!out->status) out->status = spec_canonicalise(&canonical, &spec);
  if (out->status) return;
  double begin = clock_ms();
  cuda_tools tools = {.kept = cache_open(folder, log_to_stderr(LOG_WARNINGS))};
  out->status = cuda_build_or_load(&binary, &canonical, &tools);
  double built = clock_ms();
  if (!out->status) out->status = compile_plan(&binary);
  double end = clock_ms();
  out->render = binary.render_ms;
  out->compile = binary.compile_ms;
  out->read = binary.read_ms;
  out->plan = end - built;
  out->all = end - begin;
  out->kilobytes = (double)binary.code.bytes / 1024;
}

static start run_in_process(const char *words) {
  start out = {.status = FA_COMPILE, .message = "the process died"};
  int ends[2];
  if (pipe(ends)) exit(1);
  pid_t pid = fork();
  if (!pid) {
    start mine = {.status = FA_OK};
    run_here(&mine, words);
    snprintf(mine.message, sizeof mine.message, "%.255s", fa_error_message());
    if (write(ends[1], &mine, sizeof mine) != sizeof mine) abort();
    _exit(0);
  }
  if (read(ends[0], &out, sizeof out) != sizeof out) out.status = FA_COMPILE;
  close(ends[0]);
  close(ends[1]);
  waitpid(pid, NULL, 0);
  if (!out.status) return out;
  fprintf(stderr, "bench_build: %s: %s\n", words, out.message);
  exit(1);
}

static void forget_everything(void) {
  cache *kept = cache_open(folder, log_to_stderr(LOG_WARNINGS));
  cache_prune(kept, 0);
  cache_close(kept);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median of the member at `offset`. */
static double median(const start *of, int count, size_t offset) {
  double values[RUNS];
  for (int i = 0; i < count; ++i) memcpy(&values[i], (const char *)&of[i] + offset, sizeof *values);
  qsort(values, (size_t)count, sizeof *values, by_value);
  return values[count / 2];
}

static void measure(const char *words) {
  start cold[COLD_RUNS], warm[RUNS];
  for (int i = 0; i < COLD_RUNS; ++i) {
    forget_everything();
    cold[i] = run_in_process(words);
  }
  for (int i = 0; i < RUNS; ++i) warm[i] = run_in_process(words);
  printf("| `%s` | %.1f | %.0f | %.0f | %.0f | %.2f | %.2f | %.2f |\n", words,
         median(cold, COLD_RUNS, offsetof(start, render)),
         median(cold, COLD_RUNS, offsetof(start, compile)),
         median(cold, COLD_RUNS, offsetof(start, all)), cold[0].kilobytes,
         median(warm, RUNS, offsetof(start, read)), median(warm, RUNS, offsetof(start, plan)),
         median(warm, RUNS, offsetof(start, all)));
  fflush(stdout);
}

int main(int argc, char **argv) {
  static const char *const usual[] = {"fwd sm80 bf16 d64 causal",  "fwd sm80 bf16 d128 causal",
                                      "bwd sm80 bf16 d128 causal", "bwd sm80 bf16 d256",
                                      "fwd sm90 bf16 d64 causal",  "fwd sm90 bf16 d128 causal",
                                      "fwd sm90 bf16 d256",        "bwd sm90 bf16 d128 causal"};
  if (!mkdtemp(folder)) return 1;
  printf("| spec | render ms | NVRTC ms | cold start ms | KB | read and check ms | plan ms | warm "
         "start "
         "ms |\n|---|---|---|---|---|---|---|---|\n");
  for (int i = 1; i < argc; ++i) measure(argv[i]);
  for (size_t i = 0; argc < 2 && i < sizeof usual / sizeof *usual; ++i) measure(usual[i]);
  forget_everything();
  return rmdir(folder) != 0;
}
