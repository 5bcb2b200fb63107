/* test_load.c: many threads on one context and on one cache folder: one compilation a key, equal
   results, and, under the thread sanitizer, no race. The numbers are small: the sanitizer's build is
   slow, and what it finds it finds in few rounds. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/spec.h"
#include "runtime/child_build.h"
#include "runtime/registry.h"
#include "support/expect.h"
#include "support/overlay.h"
#include "trust/report.h"

enum { THREADS = 64, LAUNCHERS = 8, ROUNDS = 6, SEQLEN = 33, HEADS = 2, DIM = 8 };
enum { ELEMENTS = SEQLEN * HEADS * DIM };

/* Runs `body` on so many threads, each with its number, begun together. */
typedef struct crew {
  pthread_barrier_t start;
  void (*body)(int number);
} crew;
typedef struct member {
  crew *of;
  int number;
} member;

static void *begin(void *argument) {
  member *self = argument;
  pthread_barrier_wait(&self->of->start);
  self->of->body(self->number);
  return NULL;
}

static void run_crew(int count, void (*body)(int number)) {
  pthread_t threads[THREADS];
  member members[THREADS];
  crew all = {.body = body};
  pthread_barrier_init(&all.start, NULL, (unsigned)count);
  for (int i = 0; i < count; ++i) {
    members[i] = (member){&all, i};
    assert_int_equal(pthread_create(&threads[i], NULL, begin, &members[i]), 0);
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all.start);
}

static atomic_int wrong, built;

static void check(int right, const char *what) {
  if (right) return;
  ++wrong;
  print_error("%s: %s\n", what, fa_error_message());
}

static int begin_count(void **state) {
  (void)state;
  wrong = built = 0;
  return 0;
}

static void expect_counts(const char *what, int threads, int keys) {
  printf("%s: %d threads, %d keys, %d compilations, %d wrong\n", what, threads, keys, built, wrong);
  report_line("threads %d %d %d %d", threads, keys, built, wrong);
  assert_int_equal(wrong, 0);
  assert_int_equal(built, keys);
}

/* ---- On the processor ---------------------------------------------------------------------------- */

static fa_context *context;
static const fa_kernel *kernels[THREADS];
static float inputs[4][ELEMENTS], wanted[ELEMENTS];

static void count_built(void *unused, int level, const char *line) {
  (void)unused, (void)level;
  built += !strncmp(line, "built ", 6);
}

static fa_context *open_counted(void) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *opened;
  options.backend = FA_CPU;
  options.threads = 3;
  options.log = "info";
  options.log_function = count_built;
  expect_ok(fa_context_create(&opened, &options));
  return opened;
}

static void get_one_kernel(int number) {
  fa_spec spec = FA_SPEC_INIT;
  check(!fa_spec_parse(&spec, "fwd cpu f32 d8 causal"), "parse");
  check(!fa_get_kernel(&kernels[number], context, &spec), "get");
}

static void many_threads_build_one_kernel(void **state) {
  (void)state;
  context = open_counted();
  run_crew(THREADS, get_one_kernel);
  for (int i = 0; i < THREADS; ++i) check(kernels[i] == kernels[0], "another kernel");
  fa_context_destroy(context);
  expect_counts("one kernel of the cpu", THREADS, 1);
}

static fa_args arguments(float *o, float *lse) {
  fa_args args = FA_ARGS_INIT;
  args.batch = 1;
  args.heads_q = args.heads_kv = HEADS;
  args.seqlen_q = args.seqlen_k = SEQLEN;
  args.dtype = FA_F32;
  args.dim_qk = DIM;
  args.causal = 1;
  args.q = fa_bshd(inputs[0], SEQLEN, HEADS, DIM);
  args.k = fa_bshd(inputs[1], SEQLEN, HEADS, DIM);
  args.v = fa_bshd(inputs[2], SEQLEN, HEADS, DIM);
  args.o = fa_bshd(o, SEQLEN, HEADS, DIM);
  args.lse = lse;
  return args;
}

static fa_status forward(fa_context *on, float *o, float *lse) {
  const fa_args args = arguments(o, lse);
  return fa_forward(on, &args, NULL);
}

/* Some launch on the shared context; every fourth opens and closes one of its own; every fourth asks
   for kernels that are not there yet. */
static void use_context(int number) {
  static const char *const words[] = {"fwd cpu f32 d16", "bwd cpu f32 d8 causal",
                                      "fwd cpu bf16 d8"};
  float o[ELEMENTS], lse[SEQLEN * HEADS];
  for (int round = 0; round < ROUNDS; ++round) {
    fa_spec spec = FA_SPEC_INIT;
    const fa_kernel *kernel;
    fa_context *on = context;
    if (number % 4 == 1) {
      fa_options options = FA_OPTIONS_INIT;
      options.backend = FA_CPU;
      options.threads = 2;
      check(!fa_context_create(&on, &options), "another context");
    }
    if (number % 4 == 2) {
      check(!fa_spec_parse(&spec, words[round % 3]), "parse");
      check(!fa_get_kernel(&kernel, context, &spec), "another kernel");
    }
    check(!forward(on, o, lse), "forward");
    check(!memcmp(o, wanted, sizeof o), "another result");
    if (on != context) fa_context_destroy(on);
  }
}

static void many_threads_launch_and_build(void **state) {
  float lse[SEQLEN * HEADS];
  (void)state;
  for (int i = 0; i < ELEMENTS; ++i)
    for (int t = 0; t < 4; ++t) inputs[t][i] = sinf((float)(i * (t + 2)));
  context = open_counted();
  expect_ok(forward(context, wanted, lse));
  run_crew(LAUNCHERS, use_context);
  fa_context_destroy(context);
  expect_counts("launches beside builds", LAUNCHERS, 4);
}

/* Forward and backward again and again, by contexts of one, two and three threads, in turn. */
static void a_thousand_runs_give_the_same_bits(void **state) {
  enum { RUNS = 1000, CONTEXTS = 3 };
  static float out[2][4][ELEMENTS], lse[2][SEQLEN * HEADS];
  fa_context *contexts[CONTEXTS];
  int differences = 0;
  (void)state;
  for (int i = 0; i < CONTEXTS; ++i) {
    fa_options options = FA_OPTIONS_INIT;
    options.backend = FA_CPU;
    options.threads = i + 1;
    expect_ok(fa_context_create(&contexts[i], &options));
  }
  for (int run = 0; run < RUNS; ++run) {
    int to = run > 0;
    fa_args args = arguments(out[to][0], lse[to]);
    fa_tensor *const gradients[] = {&args.dq, &args.dk, &args.dv};
    args.dout = fa_bshd(inputs[3], SEQLEN, HEADS, DIM);
    for (int i = 0; i < 3; ++i) *gradients[i] = fa_bshd(out[to][i + 1], SEQLEN, HEADS, DIM);
    expect_ok(fa_forward(contexts[run % CONTEXTS], &args, NULL));
    expect_ok(fa_backward(contexts[run % CONTEXTS], &args, NULL));
    differences += memcmp(out[0], out[to], sizeof out[0]) || memcmp(lse[0], lse[to], sizeof lse[0]);
  }
  for (int i = 0; i < CONTEXTS; ++i) fa_context_destroy(contexts[i]);
  printf("%d runs, %d differ in a bit\n", RUNS, differences);
  report_line("runs %d %d", RUNS, differences);
  assert_int_equal(differences, 0);
}

/* ---- The registry ------------------------------------------------------------------------------- */

enum { KEYS = 300 };
static registry *shared;

static fa_spec key_of(int number) {
  fa_spec key = FA_SPEC_INIT;
  key.group = number + 1;
  return key;
}

/* The kernel is a copy of its key. */
static fa_status make_copy(fa_kernel **out, fa_context *unused, const fa_spec *spec) {
  fa_spec *copy = malloc(sizeof *copy);
  (void)unused;
  if (copy) *copy = *spec;
  *out = (fa_kernel *)(void *)copy;
  ++built;
  return copy ? FA_OK : FA_NO_MEMORY;
}

static void free_copy(fa_kernel *kernel) {
  free(kernel);
}

/* Two add; the rest look up what may or may not be there, and wait for nothing. */
static void add_or_find(int number) {
  for (int left = KEYS; number < 2 && left; --left) {
    const fa_kernel *got;
    fa_spec key = key_of(left - 1);
    check(!registry_get(&got, shared, NULL, &key, make_copy), "add");
  }
  for (int found = 0; found < KEYS;) {
    found = 0;
    for (int i = 0; i < KEYS; ++i) {
      fa_spec key = key_of(i);
      const fa_kernel *got = registry_find(shared, &key);
      found += got != NULL;
      check(!got || !memcmp(got, &key, sizeof key), "another kernel");
    }
  }
}

static void look_up_goes_on_while_kernels_are_added(void **state) {
  (void)state;
  expect_ok(registry_create(&shared, free_copy));
  run_crew(LAUNCHERS, add_or_find);
  registry_destroy(shared);
  expect_counts("look-up beside additions", LAUNCHERS, KEYS);
}

/* ---- On disk ------------------------------------------------------------------------------------- */

static overlay folder;
static char cache_dir[128], counter[128];
static digest codes[THREADS];

static void build_for_gpu(int number) {
  fa_spec spec = FA_SPEC_INIT, canonical;
  cuda_binary binary;
  cuda_tools tools = {.template_dir = PROBE_OVERLAY, .nvrtc = FAKE_NVRTC};
  tools.kept = cache_open(cache_dir, log_to_stderr(LOG_WARNINGS));
  check(!fa_spec_parse(&spec, "fwd sm80 bf16 d64") && !spec_canonicalise(&canonical, &spec),
        "spec");
  check(!cuda_build_or_load(&binary, &canonical, &tools), "build");
  codes[number] = digest_of(binary.code.image, binary.code.bytes);
  cuda_binary_free(&binary);
  cache_close(tools.kept);
}

static void many_threads_compile_one_entry(void **state) {
  struct stat info;
  (void)state;
  overlay_create(&folder);
  snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder.path);
  snprintf(counter, sizeof counter, "%s/count", folder.path);
  setenv("FAKE_NVRTC_COUNT", counter, 1);
  run_crew(THREADS, build_for_gpu);
  unsetenv("FAKE_NVRTC_COUNT");
  for (int i = 0; i < THREADS; ++i)
    check(!memcmp(&codes[i], &codes[0], sizeof codes[0]), "another binary");
  built = stat(counter, &info) ? 0 : (int)info.st_size;
  overlay_remove(&folder);
  expect_counts("one entry on disk", THREADS, 1);
}

/* Reads, writes and prunes one key, so that files go while they are in use. */
static void use_cache(int number) {
  cache_entry entry;
  const cache_section section = {"text", "abc", 3};
  cache *kept = cache_open(cache_dir, log_to_stderr(LOG_OFF));
  for (int round = 0; round < 20 * ROUNDS; ++round) {
    if (number % 3 == 0) cache_write(kept, "key", &section, 1);
    if (number % 3 == 1) cache_prune(kept, 0);
    if (!cache_read(&entry, kept, "key")) continue;
    check(!strcmp(cache_find(&entry, "text")->data, "abc"), "another entry");
    cache_entry_free(&entry);
  }
  cache_close(kept);
}

static void entries_are_removed_while_in_use(void **state) {
  (void)state;
  overlay_create(&folder);
  snprintf(cache_dir, sizeof cache_dir, "%s", folder.path);
  run_crew(LAUNCHERS, use_cache);
  overlay_remove(&folder);
  expect_counts("eviction", LAUNCHERS, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(many_threads_build_one_kernel, begin_count),
      cmocka_unit_test_setup(many_threads_launch_and_build, begin_count),
      cmocka_unit_test_setup(a_thousand_runs_give_the_same_bits, begin_count),
      cmocka_unit_test_setup(look_up_goes_on_while_kernels_are_added, begin_count),
      cmocka_unit_test_setup(many_threads_compile_one_entry, begin_count),
      cmocka_unit_test_setup(entries_are_removed_while_in_use, begin_count),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
