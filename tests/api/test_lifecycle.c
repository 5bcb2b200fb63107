/* test_lifecycle.c: contexts, kernels and messages from birth to end; where options come from;
   sizes of zero; forked children. Through the public API. */
#include "problem.h"
#include "support/overlay.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static problem memory;

static int fresh_memory(void **state) {
  (void)state;
  unsetenv("FA_THREADS");
  unsetenv("FA_TEMPLATE_DIR");
  unsetenv("FA_LOG");
  problem_fill(&memory);
  return 0;
}

static fa_spec spec_of(const char *words) {
  fa_spec spec = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  return spec;
}

static const fa_kernel *kernel_of(fa_context *context, const char *words) {
  const fa_kernel *kernel = NULL;
  fa_spec spec = spec_of(words);
  expect_ok(fa_get_kernel(&kernel, context, &spec));
  assert_non_null(kernel);
  return kernel;
}

static fa_context *context_with(const fa_options *options) {
  fa_context *context;
  expect_ok(fa_context_create(&context, options));
  return context;
}

static fa_context_info info_of(const fa_context *context) {
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  expect_ok(fa_context_info_get(&info, context));
  return info;
}

/* ---- Contexts and kernels ------------------------------------------------------------------- */

static void contexts_come_and_go(void **state) {
  (void)state;
  for (int i = 0; i < 20; ++i) {
    fa_context *context = problem_context(1 + i % 4);
    if (i % 2) kernel_of(context, "bwd cpu f32 d16 v8 gqa2");
    fa_args args = problem_args(&memory);
    expect_ok(fa_forward(context, &args, NULL));
    fa_context_destroy(context);
  }
}

static void one_spec_is_one_kernel(void **state) {
  fa_context *context = problem_context(1);
  const fa_kernel *kernel = kernel_of(context, "fwd cpu f32 d64 causal");
  (void)state;
  assert_ptr_equal(kernel, kernel_of(context, "fwd cpu f32 d64 causal"));
  assert_ptr_equal(kernel, kernel_of(context, "causal det d64 v64 gqa1 f32 fwd"));
  assert_ptr_not_equal(kernel, kernel_of(context, "fwd cpu f32 d64"));
  assert_ptr_not_equal(kernel, kernel_of(context, "fwd cpu f32 d72 causal"));
  fa_context_destroy(context);
}

static void contexts_do_not_share(void **state) {
  fa_context *one = problem_context(1), *two = problem_context(2);
  const fa_kernel *kernel_one = problem_kernel(one, FA_FWD);
  const fa_kernel *kernel_two = problem_kernel(two, FA_FWD);
  fa_args args = problem_args(&memory);
  (void)state;
  assert_ptr_not_equal(kernel_one, kernel_two);
  expect_ok(fa_launch(kernel_one, &args, NULL));
  fa_context_destroy(one);
  expect_ok(fa_launch(kernel_two, &args, NULL));
  assert_int_equal(info_of(two).threads, 2);
  fa_context_destroy(two);
}

static void kernels_can_be_looked_into(void **state) {
  static const char name[] = "fa_bwd_cpu_bf16_d72_gqa3_causal";
  fa_context *context = problem_context(1);
  const fa_kernel *kernel = kernel_of(context, "bwd bf16 d72 gqa3 causal");
  fa_kernel_info info = FA_KERNEL_INFO_INIT;
  (void)state;
  expect_ok(fa_kernel_info_get(&info, kernel));
  assert_int_equal(info.size, sizeof info);
  assert_string_equal(info.name, name);
  assert_int_equal(info.target, FA_TARGET_CPU);
  assert_int_equal(info.origin, FA_BUILT);
  assert_int_equal(info.registers, 0);
  assert_int_equal(info.spill_bytes, 0);
  assert_in_range(info.shared_bytes, 64 * 72 * 4, 1 << 20);
  assert_true(info.render_ms > 0 && info.render_ms < 10000);
  assert_true(info.compile_ms > 0 && info.compile_ms < 10000);
  assert_true(info.load_ms >= 0);
  expect_words("source", fa_kernel_source(kernel),
               "fa_bwd_cpu_bf16_d72_gqa3_causal_main(|_preprocess(|_convert(");
  expect_words("launch source", fa_kernel_launch_source(kernel),
               "void fa_bwd_cpu_bf16_d72_gqa3_causal_plan(const fa_problem *in, fa_plan *out)");
  fa_context_destroy(context);
}

static void structs_of_a_newer_header_are_filled(void **state) {
  struct {
    fa_kernel_info info;
    int64_t more;
  } kernel_info = {FA_KERNEL_INFO_INIT, 77};
  struct {
    fa_context_info info;
    int64_t more;
  } context_info = {FA_CONTEXT_INFO_INIT, 77};
  fa_context *context = problem_context(1);
  (void)state;
  kernel_info.info.size = sizeof kernel_info;
  context_info.info.size = sizeof context_info;
  expect_ok(fa_kernel_info_get(&kernel_info.info, problem_kernel(context, FA_FWD)));
  expect_ok(fa_context_info_get(&context_info.info, context));
  assert_int_equal(kernel_info.info.size, sizeof kernel_info);
  assert_int_equal(context_info.info.size, sizeof context_info);
  assert_int_equal(kernel_info.more, 77);
  assert_int_equal(context_info.more, 77);
  assert_int_equal(context_info.info.backend, FA_CPU);
  assert_int_equal(context_info.info.arch, 0);
  expect_words("baseline avx2 avx512", "baseline avx2 avx512", context_info.info.simd);
  fa_context_destroy(context);
}

static void lists_are_built_ahead(void **state) {
  struct newer_spec {
    fa_spec spec;
    int64_t more;
  } specs[3] = {{FA_SPEC_INIT, 0}};
  fa_context *context = problem_context(1);
  (void)state;
  specs[0].spec = spec_of("fwd cpu f32 d64");
  specs[1].spec = spec_of("bwd cpu f32 d64");
  specs[2].spec = spec_of("pre cpu f32 d64");
  for (int i = 0; i < 3; ++i) specs[i].spec.size = sizeof specs[i];
  expect_ok(fa_prebuild(context, &specs[0].spec, 3));
  expect_ok(fa_prebuild(context, &specs[0].spec, 3));
  expect_ok(fa_prebuild(context, NULL, 0));
  specs[1].spec.dim_qk = 264;
  expect_refused(fa_prebuild(context, &specs[0].spec, 3), FA_INVALID, "dim_qk: 264");
  specs[1].spec = spec_of("bwd cpu f32 d64 nosuch");
  specs[1].spec.size = sizeof specs[1];
  expect_refused(fa_prebuild(context, &specs[0].spec, 3), FA_INVALID, "'nosuch'");
  fa_context_destroy(context);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static void *fail_elsewhere(void *first_message) {
  fa_spec spec = FA_SPEC_INIT;
  strcpy(first_message, fa_error_message());
  return fa_spec_parse(&spec, "fwd cpu f32 d4") == FA_INVALID && strstr(fa_error_message(), "d4: 4")
             ? first_message
             : NULL;
}

static void messages_are_of_one_thread(void **state) {
  fa_spec spec = FA_SPEC_INIT;
  char first_message[8192] = "unset";
  pthread_t thread;
  void *right = NULL;
  (void)state;
  expect_refused(fa_spec_parse(&spec, "fwd cpu f32 d264"), FA_INVALID, "d264: 264");
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, first_message), 0);
  pthread_join(thread, &right);
  assert_non_null(right);
  assert_string_equal(first_message, "");
  expect_words("this thread", fa_error_message(), "d264: 264");
  expect_ok(fa_spec_parse(&spec, "fwd cpu f32 d64"));
  expect_words("after a success", fa_error_message(), "d264: 264");
}

static void versions_and_names_are_pinned(void **state) {
  static const struct {
    int status;
    const char *name;
  } all[] = {{0, "FA_OK"},          {10, "FA_INVALID"},   {11, "FA_UNSUPPORTED"},
             {12, "FA_BAD_STRUCT"}, {13, "FA_CAPTURE"},   {20, "FA_TEMPLATE"},
             {21, "FA_COMPILE"},    {22, "FA_NO_NVRTC"},  {30, "FA_DRIVER"},
             {31, "FA_NO_DRIVER"},  {40, "FA_NO_MEMORY"}, {1, "unknown status"},
             {-1, "unknown status"}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(all); ++i)
    assert_string_equal(fa_status_name((fa_status)all[i].status), all[i].name);
  assert_int_equal(fa_version(), FA_VERSION);
}

/* ---- Options -------------------------------------------------------------------------------- */

static int threads_with(const char *variable, int32_t option) {
  fa_options options = FA_OPTIONS_INIT;
  options.backend = FA_CPU;
  options.threads = option;
  if (variable)
    setenv("FA_THREADS", variable, 1);
  else
    unsetenv("FA_THREADS");
  fa_context *context = context_with(&options);
  int threads = info_of(context).threads;
  fa_context_destroy(context);
  return threads;
}

static void threads_come_from_the_option_then_the_environment(void **state) {
  (void)state;
  assert_int_equal(threads_with("3", 0), 3);
  assert_int_equal(threads_with("3", 2), 2);
  assert_int_equal(threads_with("none", 2), 2);
  assert_int_equal(threads_with("1024", 1), 1);
  int all = threads_with(NULL, 0);
  assert_in_range(all, 1, 1024);
  assert_int_equal(threads_with("", 0), all);
}

/* Whether the forward kernel's source has the mark of that overlay. */
static int kernel_has(const fa_options *options, const char *mark) {
  fa_context *context = context_with(options);
  int found = strstr(fa_kernel_source(kernel_of(context, "fwd cpu f32 d64")), mark) != NULL;
  fa_context_destroy(context);
  return found;
}

static void write_marked(const overlay *folder, const char *mark) {
  char *text = read_whole_file(FAGEN_SOURCE_DIR "/templates/cpu/fwd.c.lua");
  size_t bytes = strlen(text) + 64;
  char *marked = malloc(bytes);
  assert_non_null(marked);
  snprintf(marked, bytes, "%s/* %s */\n", text, mark);
  overlay_write(folder, "cpu/fwd.c.lua", marked);
  free(marked);
  free(text);
}

static void templates_come_from_the_option_then_the_environment(void **state) {
  overlay one, two;
  fa_options options = FA_OPTIONS_INIT;
  fa_spec spec = spec_of("fwd cpu f32 d64 own");
  char path[64];
  (void)state;
  overlay_create(&one);
  overlay_create(&two);
  write_marked(&one, "MARK of the environment");
  write_marked(&two, "MARK of the option");
  options.backend = FA_CPU;
  setenv("FA_TEMPLATE_DIR", one.path, 1);
  assert_true(kernel_has(&options, "MARK of the environment"));
  snprintf(path, sizeof path, "%s", two.path);
  options.template_dir = path;
  assert_true(kernel_has(&options, "MARK of the option"));
  fa_context *context = context_with(&options);
  memset(path, 'x', sizeof path - 1); /* the string was copied */
  assert_non_null(
      strstr(fa_kernel_source(kernel_of(context, "fwd cpu f32 d64")), "MARK of the option"));
  fa_context_destroy(context);
  options.template_dir = "";
  assert_false(kernel_has(&options, "MARK"));
  setenv("FA_TEMPLATE_DIR", "", 1);
  options.template_dir = NULL;
  assert_false(kernel_has(&options, "MARK"));

  /* fa_check has no context: it looks where a context without options would. */
  overlay_write(&one, "variants/own.lua",
                "return variant { doc = 'x', score = function(s) return 2 * s end }\n");
  assert_int_equal(fa_check(&spec, NULL, 0), FA_INVALID);
  setenv("FA_TEMPLATE_DIR", one.path, 1);
  expect_ok(fa_check(&spec, NULL, 0));
  overlay_remove(&one);
  expect_refused(fa_check(&spec, NULL, 0), FA_INVALID, "template_dir|No such file");
  overlay_remove(&two);
}

/* What building a kernel writes to stderr: free(). */
static char *log_of_build(const char *option) {
  overlay folder;
  fa_options options = FA_OPTIONS_INIT;
  overlay_create(&folder);
  overlay_write(&folder, "log", "");
  options.backend = FA_CPU;
  options.log = option;
  fflush(stderr);
  int kept = dup(STDERR_FILENO);
  assert_non_null(freopen(overlay_path(&folder, "log"), "w", stderr));
  fa_context *context = context_with(&options);
  kernel_of(context, "fwd cpu f32 d64");
  fa_context_destroy(context);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  char *text = read_whole_file(overlay_path(&folder, "log"));
  overlay_remove(&folder);
  return text;
}

static void builds_are_logged_when_asked_for(void **state) {
  (void)state;
  char *quiet = log_of_build(NULL);
  assert_string_equal(quiet, "");
  setenv("FA_LOG", "info", 1);
  char *told = log_of_build(NULL), *off = log_of_build("off");
  expect_words("FA_LOG=info", told, "fagen: |fa_fwd_cpu_f32_d64|ms");
  assert_string_equal(off, "");
  unsetenv("FA_LOG");
  char *option = log_of_build("info");
  expect_words("log info", option, "fagen: |fa_fwd_cpu_f32_d64|ms");
  free(quiet);
  free(told);
  free(off);
  free(option);
}

/* ---- Launches ------------------------------------------------------------------------------- */

static void launches_give_what_one_call_gives(void **state) {
  static problem by_launch;
  fa_context *context = problem_context(3);
  fa_args one = problem_args(&memory), other = problem_args(&by_launch);
  size_t bytes = 0;
  (void)state;
  problem_fill(&by_launch);
  expect_ok(fa_forward(context, &one, NULL));
  expect_ok(fa_backward(context, &one, NULL));
  expect_ok(fa_launch(problem_kernel(context, FA_FWD), &other, NULL));
  expect_ok(fa_workspace_size(&bytes, problem_kernel(context, FA_BWD), &other));
  other.workspace = by_launch.workspace;
  other.workspace_size = bytes;
  expect_ok(fa_launch(problem_kernel(context, FA_BWD), &other, NULL));
  for (size_t i = bytes; i < sizeof by_launch.workspace; ++i)
    assert_int_equal(by_launch.workspace[i], 0xa5);
  memcpy(by_launch.workspace, memory.workspace, sizeof memory.workspace);
  assert_memory_equal(&by_launch, &memory, sizeof memory);
  fa_context_destroy(context);
}

static void preprocess_leaves_d_at_the_start_of_the_workspace(void **state) {
  fa_context *context = problem_context(2);
  fa_args args = problem_args(&memory);
  const float *d = (const float *)(const void *)memory.workspace;
  (void)state;
  args.workspace = memory.workspace;
  args.workspace_size = sizeof memory.workspace;
  expect_ok(fa_forward(context, &args, NULL));
  expect_ok(fa_launch(problem_kernel(context, FA_PRE), &args, NULL));
  for (int b = 0; b < BATCH; ++b)
    for (int h = 0; h < HEADS_Q; ++h)
      for (int i = 0; i < SEQLEN_Q; ++i) {
        int dense = ((b * SEQLEN_Q + i) * HEADS_Q + h) * DIM_V;
        int row = (b * HEADS_Q + h) * SEQLEN_Q + i;
        double wanted = -(double)memory.dlse[row];
        for (int c = 0; c < DIM_V; ++c)
          wanted += (double)memory.o[dense + c] * (double)memory.dout[dense + c];
        if (fabs((double)d[row] - wanted) > 1e-5)
          fail_msg("D of batch %d, head %d, row %d: %g, wanted %g", b, h, i, (double)d[row],
                   wanted);
      }
  fa_context_destroy(context);
}

static fa_context *shared_context;

static void *run_often(void *own_problem) {
  fa_args args = problem_args(own_problem);
  for (int i = 0; i < 20; ++i)
    if (fa_forward(shared_context, &args, NULL) || fa_backward(shared_context, &args, NULL))
      return NULL;
  return own_problem;
}

static void threads_share_a_context(void **state) {
  static problem problems[4];
  pthread_t threads[COUNT_OF(problems)];
  (void)state;
  shared_context = problem_context(2);
  for (size_t i = 0; i < COUNT_OF(problems); ++i) {
    problem_fill(&problems[i]);
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, &problems[i]), 0);
  }
  for (size_t i = 0; i < COUNT_OF(problems); ++i) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    assert_non_null(result);
    assert_memory_equal(&problems[i], &problems[0], sizeof problems[0]);
  }
  fa_context_destroy(shared_context);
}

/* ---- Sizes of zero -------------------------------------------------------------------------- */

static void assert_all(const char *what, const float *values, size_t count, float wanted) {
  for (size_t i = 0; i < count; ++i)
    if (values[i] != wanted)
      fail_msg("%s[%zu] is %g, wanted %g", what, i, (double)values[i], (double)wanted);
}

static void assert_poison(const char *what, const void *memory_of, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (((const unsigned char *)memory_of)[i] != 0xa5) fail_msg("%s was written", what);
}

#define ALL_ARE(field, value) assert_all(#field, memory.field, COUNT_OF(memory.field), value)
#define UNTOUCHED(field) assert_poison(#field, memory.field, sizeof memory.field)

/* Runs both passes with one size set to zero, its tensors without data. */
static void run_with_zero(int batch, int heads, int seqlen_q, int seqlen_k, int causal) {
  fa_context *context = problem_context(2);
  fa_args args = problem_args(&memory);
  args.causal = causal;
  args.batch = batch;
  args.heads_q = heads ? HEADS_Q : 0;
  args.heads_kv = heads ? HEADS_KV : 0;
  args.seqlen_q = seqlen_q;
  args.seqlen_k = seqlen_k;
  if (!batch || !heads || !seqlen_q) {
    args.q.data = args.o.data = args.dout.data = args.dq.data = NULL;
    args.lse = NULL;
    args.dlse = NULL;
  }
  if (!batch || !heads || !seqlen_k) args.k.data = args.v.data = args.dk.data = args.dv.data = NULL;
  expect_ok(fa_forward(context, &args, NULL));
  expect_ok(fa_backward(context, &args, NULL));
  fa_context_destroy(context);
}

static void no_batch_and_no_heads_write_nothing(void **state) {
  (void)state;
  for (int causal = 0; causal < 2; ++causal) {
    run_with_zero(0, 1, SEQLEN_Q, SEQLEN_K, causal);
    run_with_zero(BATCH, 0, SEQLEN_Q, SEQLEN_K, causal);
    run_with_zero(BATCH, 1, 0, 0, causal);
    UNTOUCHED(o);
    UNTOUCHED(lse);
    UNTOUCHED(dq);
    UNTOUCHED(dk);
    UNTOUCHED(dv);
  }
}

/* A grid of nothing takes no time, however many heads have none of it. */
static void nothing_times_much_is_nothing(void **state) {
  fa_context *context = problem_context(2);
  fa_args args = problem_args(&memory);
  (void)state;
  args.seqlen_q = args.seqlen_k = 0;
  args.batch = args.heads_kv = INT32_MAX;
  args.heads_q = args.heads_kv;
  expect_ok(fa_forward(context, &args, NULL));
  expect_ok(fa_backward(context, &args, NULL));
  fa_context_destroy(context);
}

static void no_queries_give_zero_gradients_to_keys(void **state) {
  (void)state;
  for (int causal = 0; causal < 2; ++causal) {
    fresh_memory(NULL);
    run_with_zero(BATCH, 1, 0, SEQLEN_K, causal);
    ALL_ARE(dk, 0);
    ALL_ARE(dv, 0);
    UNTOUCHED(o);
    UNTOUCHED(lse);
    UNTOUCHED(dq);
  }
}

static void no_keys_give_zero_and_minus_infinity(void **state) {
  (void)state;
  for (int causal = 0; causal < 2; ++causal) {
    fresh_memory(NULL);
    run_with_zero(BATCH, 1, SEQLEN_Q, 0, causal);
    ALL_ARE(o, 0);
    ALL_ARE(lse, -INFINITY);
    ALL_ARE(dq, 0);
    UNTOUCHED(dk);
    UNTOUCHED(dv);
  }
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void memory_is_aligned_and_copied(void **state) {
  fa_context *context = problem_context(1);
  void *block, *large = &block;
  char text[16] = "";
  (void)state;
  for (size_t bytes = 0; bytes < 2000; bytes += 333) {
    expect_ok(fa_memory_alloc(&block, context, bytes));
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 256, 0);
    memset(block, 1, bytes);
    fa_memory_free(context, block);
  }
  expect_ok(fa_memory_alloc(&block, context, 64));
  expect_ok(fa_memory_copy(context, block, "fifteen letters", 16, NULL));
  expect_ok(fa_memory_copy(context, text, block, 16, NULL));
  assert_string_equal(text, "fifteen letters");
  expect_ok(fa_memory_copy(context, NULL, NULL, 0, NULL));
  fa_memory_free(context, block);
  expect_refused(fa_memory_alloc(&large, context, SIZE_MAX), FA_NO_MEMORY, "18446744073709551615");
  assert_null(large);
  fa_context_destroy(context);
}

/* ---- Forked children ------------------------------------------------------------------------ */

/* ThreadSanitizer cannot follow threads that a forked child starts. */
#ifdef __SANITIZE_THREAD__
enum { CHILD_THREADS = 1 };
#else
enum { CHILD_THREADS = 2 };
#endif

/* 0 when the child is told what it cannot do, and can do the rest. */
static int in_child(fa_context *parents) {
  fa_args args = problem_args(&memory);
  fa_spec spec = spec_of("fwd cpu f32 d40");
  const fa_kernel *kernel;
  if (fa_forward(parents, &args, NULL) != FA_UNSUPPORTED) return 1;
  if (!strstr(fa_error_message(), "fork")) return 2;
  fa_status status = fa_get_kernel(&kernel, parents, &spec); /* never a hang */
  if (status && (status != FA_UNSUPPORTED || !strstr(fa_error_message(), "fork"))) return 3;
  fa_context *own = problem_context(CHILD_THREADS);
  if (fa_forward(own, &args, NULL) || fa_backward(own, &args, NULL)) return 4;
  fa_context_destroy(own);
  fa_context_destroy(parents);
  return 0;
}

static void a_forked_child_gets_a_clear_status(void **state) {
  fa_context *context = problem_context(3);
  fa_args args = problem_args(&memory);
  int status = -1;
  (void)state;
  expect_ok(fa_forward(context, &args, NULL));
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(in_child(context));
  }
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  expect_ok(fa_forward(context, &args, NULL));
  fa_context_destroy(context);
}

int main(void) {
#define FRESH(test) cmocka_unit_test_setup(test, fresh_memory)
  const struct CMUnitTest tests[] = {
      FRESH(contexts_come_and_go),
      FRESH(one_spec_is_one_kernel),
      FRESH(contexts_do_not_share),
      FRESH(kernels_can_be_looked_into),
      FRESH(structs_of_a_newer_header_are_filled),
      FRESH(lists_are_built_ahead),
      FRESH(messages_are_of_one_thread),
      FRESH(versions_and_names_are_pinned),
      FRESH(threads_come_from_the_option_then_the_environment),
      FRESH(templates_come_from_the_option_then_the_environment),
      FRESH(builds_are_logged_when_asked_for),
      FRESH(launches_give_what_one_call_gives),
      FRESH(preprocess_leaves_d_at_the_start_of_the_workspace),
      FRESH(threads_share_a_context),
      FRESH(no_batch_and_no_heads_write_nothing),
      FRESH(nothing_times_much_is_nothing),
      FRESH(no_queries_give_zero_gradients_to_keys),
      FRESH(no_keys_give_zero_and_minus_infinity),
      FRESH(memory_is_aligned_and_copied),
      FRESH(a_forked_child_gets_a_clear_status),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
