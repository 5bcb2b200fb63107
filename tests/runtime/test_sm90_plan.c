/* test_sm90_plan.c: which launches the plans of sm90's backward choose, that they keep to the
   workspace that they are allowed, that no plan asks the driver for a map of nothing, and that no
   launch starts too early. Needs no GPU. */
#include <stdio.h>
#include <string.h>

#include "gen/spec.h"
#include "support/expect.h"

#include "emitted_plan.h"

typedef struct planner {
  fa_kernel kernel;
  render_result text;
} planner;

static void open_planner(planner *out, const char *words) {
  fa_spec spec = FA_SPEC_INIT, canonical = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&canonical, &spec));
  expect_ok(render_spec(&out->text, &canonical, NULL));
  emitted_plan_compile(&out->kernel, &canonical, &out->text);
}

static void close_planner(planner *p) {
  jit_free(p->kernel.code);
  render_free(&p->text);
}

/* Steps that are launched. */
static int count_steps(const fa_plan *plan) {
  int count = 0;
  for (int i = 0; i < plan->num_steps; ++i) count += plan->steps[i].grid[0] > 0;
  return count;
}

/* ---- One launch -------------------------------------------------------------------------- */

static void short_sequences_of_many_heads_take_one_launch(void **state) {
  static const struct {
    const char *words;
    int batch, seqlen, steps;
  } cases[] = {
      {"bwd sm90 bf16 d128 causal", 32, 512, 1}, {"bwd sm90 bf16 d128 causal", 32, 513, 3},
      {"bwd sm90 bf16 d128 causal", 1, 512, 3},  {"bwd sm90 bf16 d128", 32, 384, 1},
      {"bwd sm90 bf16 d128", 32, 512, 3},        {"bwd sm90 bf16 d128 det", 32, 512, 1},
      {"bwd sm90 bf16 d64", 32, 512, 1},         {"bwd sm90 bf16 d64 causal", 32, 1024, 1},
      {"bwd sm90 bf16 d64 causal", 32, 1025, 3}, {"bwd sm90 bf16 d256", 32, 128, 3},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    planner p;
    fa_plan plan;
    open_planner(&p, cases[i].words);
    const fa_problem problem =
        emitted_plan_problem(&p.kernel.spec, cases[i].batch, 16, cases[i].seqlen);
    p.kernel.plan(&problem, &plan);
    if (count_steps(&plan) != cases[i].steps)
      fail_msg("%s, batch %d, length %d: %d steps; %d wanted", cases[i].words, cases[i].batch,
               cases[i].seqlen, count_steps(&plan), cases[i].steps);
    close_planner(&p);
  }
}

/* ---- Nothing to do ------------------------------------------------------------------------ */

/* cuTensorMapEncodeTiled refuses an extent of 0. */
static void expect_maps_of_something(const planner *p, const char *words,
                                     const fa_problem *problem) {
  fa_plan plan;
  p->kernel.plan(problem, &plan);
  for (int i = 0; i < plan.num_steps; ++i) {
    const fa_step *step = &plan.steps[i];
    for (int map = 0; step->grid[0] > 0 && map < step->num_maps; ++map)
      for (int r = 0; r < step->maps[map].rank; ++r)
        if (step->maps[map].extent[r] == 0)
          fail_msg("%s, batch %lld, heads %lld/%lld, seqlen %lld x %lld: extent %d of map %d of "
                   "step %d is 0",
                   words, (long long)problem->batch, (long long)problem->heads_q,
                   (long long)problem->heads_kv, (long long)problem->seqlen_q,
                   (long long)problem->seqlen_k, r, map, i);
  }
}

static void a_size_of_zero_is_no_map(void **state) {
  static const char *const words[] = {
      "fwd sm90 bf16 d64",      "fwd sm90 bf16 d128 causal", "bwd sm90 bf16 d64",
      "bwd sm90 bf16 d128 det", "bwd sm90 bf16 d256 causal", "bwd sm90 bf16 d64 gqa2 document"};
  static const int sizes[][4] = {
      {0, 2, 3, 5}, {2, 0, 3, 5}, {2, 2, 0, 5}, {2, 2, 3, 0}, {2, 2, 0, 0}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    planner p;
    open_planner(&p, words[i]);
    for (size_t n = 0; n < COUNT_OF(sizes); ++n) {
      fa_problem problem = emitted_plan_problem(&p.kernel.spec, sizes[n][0], sizes[n][1], 8);
      problem.seqlen_q = sizes[n][2];
      problem.seqlen_k = sizes[n][3];
      expect_maps_of_something(&p, words[i], &problem);
    }
    close_planner(&p);
  }
}

/* ---- Chains ------------------------------------------------------------------------------ */

/* The text of a kernel: from its `__global__` to the next, or to the end. */
static void find_kernel(const char **begin, const char **end, const planner *p, const char *entry) {
  static const char mark[] = "__global__";
  char opening[FA_NAME_MAX + 32];
  snprintf(opening, sizeof opening, "%s(", entry);
  *begin = strstr(p->text.kernel.text, opening);
  if (!*begin) fail_msg("%s is not in the text", entry);
  *end = strstr(*begin, mark);
  if (!*end) *end = *begin + strlen(*begin);
}

static const char *find_within(const char *begin, const char *end, const char *call) {
  const char *found = strstr(begin, call);
  return found && found < end ? found : NULL;
}

/* A launch that may start early begins with a wait for those before it. Only the first of a chain lets
   the next start without: it has itself been started when all before it had ended. */
static void expect_chain_in_order(const planner *p, const char *words, const fa_problem *problem) {
  fa_plan plan;
  p->kernel.plan(problem, &plan);
  int launched = 0;
  for (int i = 0; i < plan.num_steps; ++i) {
    const fa_step *step = &plan.steps[i];
    const char *begin, *end;
    if (step->grid[0] == 0) continue;
    find_kernel(&begin, &end, p, step->entry);
    const char *wait = find_within(begin, end, "launch_wait();"),
               *next = find_within(begin, end, "launch_next();");
    if (!launched++ && step->programmatic)
      fail_msg("%s: %s is the first launch, and starts early", words, step->entry);
    if (step->programmatic && !wait)
      fail_msg("%s: %s starts early and waits for nothing", words, step->entry);
    if (step->programmatic && next && next < wait)
      fail_msg("%s: %s lets the next start before it has waited", words, step->entry);
  }
}

static void the_first_launch_of_a_chain_waits_for_all_before_it(void **state) {
  static const char *const words[] = {"fwd sm90 bf16 d64",
                                      "fwd sm90 bf16 d128 causal",
                                      "fwd sm90 bf16 d128 document",
                                      "pre sm90 bf16 d64",
                                      "bwd sm90 bf16 d64",
                                      "bwd sm90 bf16 d128 causal det",
                                      "bwd sm90 bf16 d256",
                                      "bwd sm90 bf16 d64 gqa2 document",
                                      "bwd sm90 bf16 d128 gqa8",
                                      "bwd sm90 bf16 d64 bias",
                                      "bwd sm90 bf16 d64 causal det sink",
                                      "bwd sm90 bf16 d192 v128 det"};
  static const int lengths[] = {0, 1, 300, 513, 4096};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    planner p;
    open_planner(&p, words[i]);
    for (size_t n = 0; n < COUNT_OF(lengths) * COUNT_OF(lengths); ++n)
      for (int batch = 1; batch <= 40; batch += 39) {
        fa_problem problem = emitted_plan_problem(&p.kernel.spec, batch, 8, 1);
        problem.seqlen_q = lengths[n / COUNT_OF(lengths)];
        problem.seqlen_k = lengths[n % COUNT_OF(lengths)];
        expect_chain_in_order(&p, words[i], &problem);
        problem.workspace_limit = 1;
        expect_chain_in_order(&p, words[i], &problem);
      }
    close_planner(&p);
  }
}

/* ---- Groups ------------------------------------------------------------------------------- */

static void groups_are_divided_where_their_blocks_are_too_few(void **state) {
  static const struct {
    const char *words;
    int batch, heads_kv, seqlen;
    unsigned parts; /* of a group */
  } cases[] = {
      {"bwd sm90 bf16 d128 gqa8", 1, 4, 2048, 2},
      {"bwd sm90 bf16 d128 gqa8", 1, 4, 1024, 4},
      {"bwd sm90 bf16 d128 gqa8", 4, 4, 4096, 1},
      {"bwd sm90 bf16 d128 gqa4", 1, 8, 2048, 1},
      {"bwd sm90 bf16 d128 gqa4", 16, 8, 1024, 1},
      {"bwd sm90 bf16 d128 gqa8 causal", 1, 4, 2048, 4},
      {"bwd sm90 bf16 d128 gqa8 causal", 4, 4, 4096, 2},
      {"bwd sm90 bf16 d256 gqa8", 1, 2, 1024, 4},
      {"bwd sm90 bf16 d64 gqa5", 1, 1, 1024, 5},
      {"bwd sm90 bf16 d128 gqa8 det", 1, 4, 2048, 1},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    planner p;
    fa_plan plan;
    open_planner(&p, cases[i].words);
    const fa_problem problem =
        emitted_plan_problem(&p.kernel.spec, cases[i].batch, cases[i].heads_kv, cases[i].seqlen);
    p.kernel.plan(&problem, &plan);
    const int keys = p.kernel.spec.dim_qk > 192 ? 80 : 128; /* of a tile */
    const int key_tiles = (cases[i].seqlen + keys - 1) / keys;
    const unsigned whole = (unsigned)(cases[i].batch * cases[i].heads_kv * key_tiles);
    if (plan.steps[1].grid[0] != cases[i].parts * whole)
      fail_msg("%s, batch %d, %d heads of K, length %d: %u blocks; %u wanted", cases[i].words,
               cases[i].batch, cases[i].heads_kv, cases[i].seqlen, plan.steps[1].grid[0],
               cases[i].parts * whole);
    close_planner(&p);
  }
}

/* ---- The workspace ----------------------------------------------------------------------- */

static unsigned long long bytes_within(const planner *p, fa_problem problem, long long limit) {
  fa_plan plan;
  problem.workspace_limit = limit;
  p->kernel.plan(&problem, &plan);
  return plan.workspace_bytes;
}

/* From the least that the plan can do with to all that it would take. */
static void expect_limits_kept(const planner *p, const char *words, int batch, int seqlen) {
  const fa_problem problem = emitted_plan_problem(&p->kernel.spec, batch, 4, seqlen);
  const unsigned long long all = bytes_within(p, problem, 0), least = bytes_within(p, problem, 1);
  printf("  %-36s batch %2d, length %5d: %llu bytes, at least %llu\n", words, batch, seqlen, all,
         least);
  assert_true(least <= all);
  if (batch > 1) assert_true(2 * least < all);
  for (int i = 0; i <= 16; ++i) {
    const unsigned long long limit = least + 2048 + (all - least) * (unsigned)i / 16;
    const unsigned long long bytes = bytes_within(p, problem, (long long)limit);
    if (bytes > limit) fail_msg("%s: %llu bytes where %llu are allowed", words, bytes, limit);
  }
}

static void a_limit_of_the_workspace_is_kept(void **state) {
  static const char *const words[] = {"bwd sm90 bf16 d128",
                                      "bwd sm90 f16 d64 gqa4 causal det",
                                      "bwd sm90 bf16 d256 causal",
                                      "bwd sm90 bf16 d192 v128 det",
                                      "bwd sm90 bf16 d128 causal document",
                                      "bwd sm90 bf16 d128 gqa8"};
  static const int lengths[] = {100, 512, 1000, 4096};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    planner p;
    open_planner(&p, words[i]);
    for (size_t n = 0; n < COUNT_OF(lengths); ++n) {
      expect_limits_kept(&p, words[i], 1, lengths[n]);
      expect_limits_kept(&p, words[i], 40, lengths[n]);
    }
    close_planner(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_sequences_of_many_heads_take_one_launch),
      cmocka_unit_test(a_size_of_zero_is_no_map),
      cmocka_unit_test(the_first_launch_of_a_chain_waits_for_all_before_it),
      cmocka_unit_test(groups_are_divided_where_their_blocks_are_too_few),
      cmocka_unit_test(a_limit_of_the_workspace_is_kept),
  };
  return cmocka_run_group_tests_name("sm90_plan", tests, expect_to_end, NULL);
}
