/* test_parameters.c: parameters of variants through the public API: found by name and by slot, each
   fault named, tables and gradients judged as tensors are, and gradients written, whatever was there
   before, to the same bits by any number of threads, and of each caller's own tables. */
#include "problem.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char variants[] = "window softcap document bias sink";

enum { WIDTH = 5, PARAMS = 7 };

/* What the parameters point at. */
typedef struct values {
  _Alignas(256) int k_ids[BATCH * SEQLEN_K];
  _Alignas(256) int q_ids[BATCH * SEQLEN_Q];
  _Alignas(256) float table[HEADS_Q * WIDTH];
  _Alignas(256) float logit[HEADS_Q];
  _Alignas(256) float dtable[HEADS_Q * WIDTH];
  _Alignas(256) float dlogit[HEADS_Q];
} values;

static problem memory, before;
static values given, given_before;
static fa_param params[PARAMS];
static fa_context *context;

static int begin(void **state) {
  context = problem_context(2);
  return expect_to_end(state);
}

static int end(void **state) {
  (void)state;
  fa_context_destroy(context);
  return 0;
}

static void fill_values(void) {
  memset(&given, 0x5a, sizeof given);
  for (int i = 0; i < BATCH * SEQLEN_K; ++i) given.k_ids[i] = i / 3 % 2;
  for (int i = 0; i < BATCH * SEQLEN_Q; ++i) given.q_ids[i] = i / 2 % 2;
  for (int i = 0; i < HEADS_Q * WIDTH; ++i) given.table[i] = (float)(i % 7) / 5 - 0.5f;
  for (int i = 0; i < HEADS_Q; ++i) given.logit[i] = (float)i - 1.5f;
}

static void name_params(fa_param to[PARAMS], values *v) {
  const fa_param all[PARAMS] = {
      {.name = "sink.logit", .data = v->logit, .length = HEADS_Q, .grad = v->dlogit},
      {.name = "bias.table", .data = v->table, .length = HEADS_Q * WIDTH, .grad = v->dtable},
      {.name = "document.k_ids", .data = v->k_ids, .length = BATCH * SEQLEN_K},
      {.name = "document.q_ids", .data = v->q_ids, .length = BATCH * SEQLEN_Q},
      {.name = "softcap.cap", .value = 3.5},
      {.name = "window.left", .value = 4},
      {.name = "window.right", .value = -1}};
  memcpy(to, all, sizeof all);
}

static int fresh(void **state) {
  (void)state;
  problem_fill(&memory);
  fill_values();
  name_params(params, &given);
  before = memory;
  given_before = given;
  return 0;
}

static fa_args good_args(void) {
  fa_args args = problem_args(&memory);
  args.variants = variants;
  args.params = params;
  args.num_params = PARAMS;
  return args;
}

static const fa_kernel *kernel_of(fa_context *of, int pass) {
  fa_spec spec = FA_SPEC_INIT;
  const fa_kernel *kernel;
  spec.pass = pass;
  spec.dtype = FA_F32;
  spec.dim_qk = DIM_QK;
  spec.dim_v = DIM_V;
  spec.group = HEADS_Q / HEADS_KV;
  strcpy(spec.variants, variants);
  expect_ok(fa_get_kernel(&kernel, of, &spec));
  return kernel;
}

static void assert_untouched(const char *what) {
  if (memcmp(&memory, &before, sizeof memory) || memcmp(&given, &given_before, sizeof given))
    fail_msg("%s: memory was written", what);
}

static void assert_refused(const char *words) {
  fa_args args = good_args();
  expect_refused(fa_forward(context, &args, NULL), FA_INVALID, words);
  expect_refused(fa_backward(context, &args, NULL), FA_INVALID, words);
  assert_untouched(words);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

enum { LOGIT, TABLE, K_IDS, Q_IDS, CAP, LEFT, RIGHT }; /* in params */

static void values_out_of_range_are_refused(void **state) {
  static const struct bad_value {
    int which;
    double value;
    const char *words;
  } cases[] = {
      {CAP, 0, "softcap.lua:4: softcap.cap: 0;|above 0"},
      {CAP, -3, "softcap.cap: -3;|above 0"},
      {CAP, NAN, "softcap.cap: nan;|a finite number"},
      {CAP, INFINITY, "softcap.cap: inf;|a finite number"},
      {CAP, 1e300, "softcap.cap: 1e+300;|finite"},
      {CAP, 1e-300, "softcap.cap: 1e-300;|above 0"}, /* 0 as the kernel takes it */
      {LEFT, -2, "window.lua:4: window.left: -2;|at least -1"},
      {LEFT, 1.5, "window.left: 1.5;|a whole number"},
      {LEFT, 2147483648.0, "window.left: 2.14748e+09;|of 32 bits"},
      {RIGHT, NAN, "window.right: nan;|a whole number"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fresh(NULL);
    params[cases[i].which].value = cases[i].value;
    assert_refused(cases[i].words);
  }
}

static void tables_of_the_wrong_length_are_refused(void **state) {
  static const struct bad_length {
    int which;
    int64_t length;
    const char *words;
  } cases[] = {
      {LOGIT, 3, "sink.lua:4: sink.logit: length 3;|heads_q = 4"},
      {LOGIT, 0, "sink.logit: length 0;|heads_q = 4"},
      {K_IDS, BATCH * SEQLEN_K - 1, "document.k_ids: length 13;|batch * seqlen_k = 14"},
      {Q_IDS, BATCH * SEQLEN_K, "document.q_ids: length 14;|batch * seqlen_q = 10"},
      {TABLE, 0, "bias.table: length 0;|heads_q * distances"},
      {TABLE, HEADS_Q * WIDTH - 1, "bias.table: length 19;|heads_q * distances"},
      {TABLE, -HEADS_Q, "bias.table: length -4;|heads_q * distances"},
      {TABLE, (int64_t)HEADS_Q * 2051, "bias.lua:5: bias.table: distances 2051;|at most 2049"},
      {CAP, 1, "softcap.cap: data or length is set"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fresh(NULL);
    params[cases[i].which].length = cases[i].length;
    assert_refused(cases[i].words);
  }
}

static void parameters_that_are_not_as_declared_are_refused(void **state) {
  fa_args args;
  (void)state;
  params[CAP].data = given.table;
  assert_refused("softcap.cap: data or length is set|by its value");
  fresh(NULL);
  params[TABLE].data = NULL;
  assert_refused("bias.table: NULL|20");
  fresh(NULL);
  params[TABLE].data = (const char *)given.table + 1;
  assert_refused("bias.table: address|multiple of 4");
  fresh(NULL);
  params[CAP].grad = given.dlogit;
  assert_refused("softcap.cap: grad is set; it has no gradient");
  fresh(NULL);
  params[CAP].name = "softcap.cup";
  assert_refused("'softcap.cup' is no parameter|softcap.cap|window.right");
  fresh(NULL);
  params[CAP].name = "cap";
  assert_refused("'cap' is no parameter");
  fresh(NULL);
  params[RIGHT].name = "window.left";
  assert_refused("window.left: given twice");
  fresh(NULL);
  params[RIGHT].name = NULL;
  params[RIGHT].slot = PARAMS;
  assert_refused("(by slot) 7 is no slot");
  params[RIGHT].slot = -1;
  assert_refused("(by slot) -1 is no slot");
  fresh(NULL);
  args = good_args();
  args.num_params = PARAMS - 1;
  expect_refused(fa_forward(context, &args, NULL), FA_INVALID,
                 "window.right: missing|a whole number of 32 bits at least -1");
  args.params = NULL;
  args.num_params = 0;
  expect_refused(fa_backward(context, &args, NULL), FA_INVALID,
                 "window.lua:4: window.left: missing");
  assert_untouched("a missing parameter");
}

static void gradients_may_overlap_nothing(void **state) {
  (void)state;
  params[TABLE].grad = given.table;
  fa_args args = good_args();
  expect_refused(fa_backward(context, &args, NULL), FA_INVALID, "bias.table: overlaps bias.table");
  params[TABLE].grad = given.dlogit - HEADS_Q * WIDTH + 1; /* its last element */
  expect_refused(fa_backward(context, &args, NULL), FA_INVALID, "overlaps");
  params[TABLE].grad = memory.q;
  expect_refused(fa_backward(context, &args, NULL), FA_INVALID, "bias.table: overlaps q");
  assert_untouched("a gradient that overlaps");
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static void slots_are_found_by_name(void **state) {
  const fa_kernel *kernel = kernel_of(context, FA_FWD);
  float o[COUNT_OF(memory.o)];
  int32_t slot = 77;
  (void)state;
  fa_args args = good_args();
  expect_ok(fa_forward(context, &args, NULL));
  memcpy(o, memory.o, sizeof o);
  for (int i = 0; i < PARAMS; ++i) {
    expect_ok(fa_param_slot(&slot, kernel, params[i].name));
    assert_in_range(slot, 0, PARAMS - 1);
    params[i].slot = slot;
    params[i].name = NULL;
  }
  memset(memory.o, 0, sizeof memory.o);
  expect_ok(fa_forward(context, &args, NULL));
  assert_memory_equal(o, memory.o, sizeof o);
  slot = 77;
  expect_refused(fa_param_slot(&slot, kernel, "bias.none"), FA_INVALID,
                 "'bias.none' is no parameter|bias.table");
  assert_int_equal(slot, 77);
}

/* A kernel without parameters, and the preprocess, which looks at no score, take none. */
static void kernels_without_parameters_take_none(void **state) {
  fa_args args = good_args();
  (void)state;
  expect_refused(fa_launch(kernel_of(context, FA_PRE), &args, NULL), FA_INVALID,
                 "'sink.logit' is no parameter|none");
  args.variants = NULL;
  expect_refused(fa_forward(context, &args, NULL), FA_INVALID, "'sink.logit' is no parameter|none");
}

/* ---- Gradients ------------------------------------------------------------------------------ */

/* Forward and backward with `threads`, from gradients that hold `rubbish`. */
static void run_both(values *out, int threads, int rubbish) {
  fa_context *own = problem_context(threads);
  fresh(NULL);
  memset(given.dtable, rubbish, sizeof given.dtable);
  memset(given.dlogit, rubbish, sizeof given.dlogit);
  fa_args args = good_args();
  expect_ok(fa_forward(own, &args, NULL));
  expect_ok(fa_backward(own, &args, NULL));
  *out = given;
  fa_context_destroy(own);
}

static void gradients_are_written_alike_by_any_number_of_threads(void **state) {
  static values first, other;
  (void)state;
  run_both(&first, 1, 0);
  for (int i = 0; i < HEADS_Q; ++i) assert_true(first.dlogit[i] != 0 && isfinite(first.dlogit[i]));
  for (int threads = 1; threads <= 5; ++threads) {
    run_both(&other, threads, 0xff); /* NaN */
    assert_memory_equal(first.dtable, other.dtable, sizeof first.dtable);
    assert_memory_equal(first.dlogit, other.dlogit, sizeof first.dlogit);
  }
}

/* One that calls, with tensors, tables and gradients of its own. */
typedef struct caller {
  problem memory;
  values given;
  fa_param params[PARAMS];
  fa_args args;
} caller;

static void make_caller(caller *out, int number) {
  out->memory = memory;
  out->given = given;
  for (int i = 0; i < HEADS_Q * WIDTH; ++i) out->given.table[i] += (float)number;
  for (int i = 0; i < BATCH * SEQLEN_K; ++i) out->given.k_ids[i] = i / (3 + number) % 2;
  name_params(out->params, &out->given);
  out->args = problem_args(&out->memory);
  out->args.variants = variants;
  out->args.params = out->params;
  out->args.num_params = PARAMS;
}

static void *call_often(void *of) {
  const caller *own = of;
  for (int i = 0; i < 20; ++i)
    if (fa_forward(context, &own->args, NULL) || fa_backward(context, &own->args, NULL))
      return NULL;
  return of;
}

static void threads_that_call_at_once_keep_to_their_own_tables(void **state) {
  enum { CALLERS = 4 };
  static caller alone[CALLERS], together[CALLERS];
  pthread_t threads[CALLERS];
  void *result;
  (void)state;
  for (int i = 0; i < CALLERS; ++i) {
    make_caller(&alone[i], i);
    make_caller(&together[i], i);
    assert_non_null(call_often(&alone[i]));
    if (i > 0) /* else tables might be mixed up unseen */
      assert_memory_not_equal(alone[i].given.dtable, alone[0].given.dtable, sizeof given.dtable);
  }
  for (int i = 0; i < CALLERS; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &together[i]), 0);
  for (int i = 0; i < CALLERS; ++i) {
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_non_null(result);
  }
  for (int i = 0; i < CALLERS; ++i) {
    assert_memory_equal(&together[i].memory, &alone[i].memory, sizeof memory);
    assert_memory_equal(&together[i].given, &alone[i].given, sizeof given);
  }
}

/* Nothing goes into a gradient from nothing. */
static void a_problem_without_queries_gives_zeros(void **state) {
  (void)state;
  fa_args args = good_args();
  args.seqlen_q = 0;
  params[Q_IDS].length = 0;
  expect_ok(fa_forward(context, &args, NULL));
  expect_ok(fa_backward(context, &args, NULL));
  for (int i = 0; i < HEADS_Q * WIDTH; ++i) assert_true(given.dtable[i] == 0);
  for (int i = 0; i < HEADS_Q; ++i) assert_true(given.dlogit[i] == 0);
}

/* A workspace can be asked for before parameters are there; lengths of tables count. */
static void the_workspace_needs_the_lengths_of_tables(void **state) {
  const fa_kernel *kernel = kernel_of(context, FA_BWD);
  size_t without, with;
  (void)state;
  params[TABLE].length = HEADS_Q * 1000; /* no memory is looked at */
  fa_args args = good_args();
  expect_ok(fa_workspace_size(&with, kernel, &args));
  args.num_params = 0;
  expect_ok(fa_workspace_size(&without, kernel, &args));
  assert_true(without < with);
}

int main(void) {
#define FRESH(test) cmocka_unit_test_setup(test, fresh)
  const struct CMUnitTest tests[] = {
      FRESH(values_out_of_range_are_refused),
      FRESH(tables_of_the_wrong_length_are_refused),
      FRESH(parameters_that_are_not_as_declared_are_refused),
      FRESH(gradients_may_overlap_nothing),
      FRESH(slots_are_found_by_name),
      FRESH(kernels_without_parameters_take_none),
      FRESH(gradients_are_written_alike_by_any_number_of_threads),
      FRESH(threads_that_call_at_once_keep_to_their_own_tables),
      FRESH(a_problem_without_queries_gives_zeros),
      FRESH(the_workspace_needs_the_lengths_of_tables),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
