/* test_shipped.c: the variants that the library ships mean what their docs say: the words that the
   generator reads from each file, and that the oracle goes by, against the same in C. */
#include "support.h"

#include "gen/bundle.h"
#include "gen/render.h"
#include "gen/spec.h"
#include "runtime/cli/drawn.h"
#include "runtime/cli/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Queries stand 4 places further right than they are counted: q = row + 4. */
static const cli_sizes sizes = {
    .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 20, .seqlen_k = 24};

/* The parameters of the case at hand. */
static drawn_params drawn;

static const drawn_param *param(const char *name) {
  for (int slot = 0; slot < drawn.count; ++slot)
    if (!strcmp(drawn.items[slot].declared->name, name)) return &drawn.items[slot];
  fail_msg("no parameter %s", name);
  return NULL;
}

static int64_t number(const char *name) {
  return (int64_t)param(name)->values[0];
}

static int64_t q_of(const cli_pair *at) {
  return at->row + sizes.seqlen_k - sizes.seqlen_q;
}

/* ---- What the docs say ------------------------------------------------------------------- */

static int window(const cli_pair *at) {
  int64_t left = number("left"), right = number("right"), q = q_of(at);
  if (left >= 0 && at->key < q - left) return 0;
  if (right >= 0 && at->key > q + right) return 0;
  return 1;
}

static int prefix_lm(const cli_pair *at) {
  return at->key < number("prefix") || at->key <= q_of(at);
}

static int dilated(const cli_pair *at) {
  int64_t distance = llabs(at->key - q_of(at));
  return distance <= number("reach") && distance % number("stride") == 0;
}

static int document(const cli_pair *at) {
  return param("q_ids")->values[at->batch * sizes.seqlen_q + at->row] ==
         param("k_ids")->values[at->batch * sizes.seqlen_k + at->key];
}

/* Rows are blocks of drafted tokens, keys a prefix of 4 and then the same blocks. */
static int block_draft(const cli_pair *at) {
  int64_t prefix = sizes.seqlen_k - sizes.seqlen_q, own = at->row / number("block");
  int64_t last = param("anchor")->shape.extent[3] - 1;
  int64_t anchor = (int64_t)param("anchor")->values[own < last ? own : last];
  if (at->key >= prefix) return (at->key - prefix) / number("block") == own;
  return at->key < anchor && (number("window") < 0 || at->key >= anchor - number("window"));
}

static double softcap(const cli_pair *at, double s) {
  const double cap = param("cap")->values[0];
  (void)at;
  return cap * tanh(s / cap);
}

static double alibi(const cli_pair *at, double s) {
  return s - param("slopes")->values[at->head] * (double)llabs(at->key - q_of(at));
}

static double bias(const cli_pair *at, double s) {
  const drawn_param *table = param("table");
  int64_t reach = table->shape.extent[3] / 2, distance = at->key - q_of(at);
  if (distance < -reach) distance = -reach;
  if (distance > reach) distance = reach;
  return s + table->values[at->head * table->shape.extent[3] + distance + reach];
}

static double sink(const cli_pair *at) {
  return param("logit")->values[at->head];
}

static const struct shipped {
  const char *name;
  int (*keep)(const cli_pair *at);
  double (*score)(const cli_pair *at, double s);
  double (*sink)(const cli_pair *at);
} known[] = {
    {"window", window, NULL, NULL},
    {"prefix_lm", prefix_lm, NULL, NULL},
    {"dilated", dilated, NULL, NULL},
    {"document", document, NULL, NULL},
    {"softcap", NULL, softcap, NULL},
    {"alibi", NULL, alibi, NULL},
    {"bias", NULL, bias, NULL},
    {"sink", NULL, NULL, sink},
    {"block_draft", block_draft, NULL, NULL},
};

/* ---- Comparing --------------------------------------------------------------------------- */

static void assert_pair(const struct shipped *v, const oracle *o, const cli_pair *at,
                        uint64_t seed) {
  char text[128];
  double slope, s = 0.37 * (double)(at->key - 7);
  snprintf(text, sizeof text, "%s, seed %d, head %d, row %d, key %d", v->name, (int)seed,
           (int)at->head, (int)at->row, (int)at->key);
  assert_near(text, oracle_keep(o, at), v->keep ? v->keep(at) : 1, 0);
  assert_near(text, oracle_score(o, at, s, &slope), v->score ? v->score(at, s) : s, 1e-12);
  assert_int_equal(oracle_has_sink(o), v->sink != NULL);
  if (v->sink) assert_near(text, oracle_sink(o, at), v->sink(at), 0);
}

static void assert_all_pairs(const struct shipped *v, const render_result *rendered,
                             uint64_t seed) {
  oracle_words words = {rendered->keep, rendered->score, rendered->sink};
  oracle_param params[PARAMS_MAX];
  cli_sizes drawn_for = sizes;
  oracle *o = NULL;
  cli_pair at;
  drawn_for.seed = seed;
  expect_ok(drawn_make(&drawn, &rendered->params, &drawn_for));
  drawn_for_oracle(params, &drawn);
  expect_ok(oracle_compile(&o, &words, &sizes, params, (size_t)drawn.count));
  for (at.batch = 0; at.batch < sizes.batch; ++at.batch)
    for (at.head = 0; at.head < sizes.heads_q; ++at.head)
      for (at.row = 0; at.row < sizes.seqlen_q; ++at.row)
        for (at.key = 0; at.key < sizes.seqlen_k; ++at.key) assert_pair(v, o, &at, seed);
  oracle_free(o);
  drawn_free(&drawn);
}

static void each_file_says_what_its_doc_says(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(known); ++i) {
    char words[FA_NAME_MAX];
    fa_spec spec = FA_SPEC_INIT, canonical = FA_SPEC_INIT;
    render_result rendered;
    snprintf(words, sizeof words, "fwd cpu f32 d8 %s", known[i].name);
    expect_ok(fa_spec_parse(&spec, words));
    expect_ok(spec_canonicalise(&canonical, &spec));
    expect_ok(render_spec(&rendered, &canonical, NULL));
    for (uint64_t seed = 1; seed <= 20; ++seed) assert_all_pairs(&known[i], &rendered, seed);
    render_free(&rendered);
  }
}

/* Causal has its words from render.c, and is tested by test_seam. */
static void no_file_is_forgotten(void **state) {
  bundle_names names;
  (void)state;
  expect_ok(bundle_variants(&names, NULL));
  for (size_t n = 0; n < names.count; ++n) {
    size_t i = 0;
    while (i < COUNT_OF(known) && strcmp(known[i].name, names.names[n])) ++i;
    if (i == COUNT_OF(known) && strcmp(names.names[n], "causal"))
      fail_msg("variants/%s.lua is shipped and not known here", names.names[n]);
  }
  bundle_names_free(&names);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_file_says_what_its_doc_says),
      cmocka_unit_test(no_file_is_forgotten),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
