/* test_oracle.c: masks, scores and sinks in postfix words against the same expressions in C, their
   derivatives against differences, and what is refused. */
#include "support.h"

#include "runtime/cli/oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows stand 3 places further right than they are counted. */
static const cli_sizes sizes = {
    .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 5, .seqlen_k = 8};
static const int64_t shift = 3;

static oracle *compiled_with(const oracle_words *words, const oracle_param *params, size_t count) {
  oracle *out = NULL;
  expect_ok(oracle_compile(&out, words, &sizes, params, count));
  return out;
}

static oracle *compiled(const char *keep, const char *score) {
  return compiled_with(&(oracle_words){keep, score, ""}, NULL, 0);
}

/* The pair with these positions on the key axis. */
static cli_pair at(int64_t q, int64_t k) {
  return (cli_pair){1, 2, q - shift, k};
}

static void empty_words_keep_everything_unchanged(void **state) {
  oracle *o = compiled("", "");
  cli_pair pair = at(-3, 1000);
  double slope = 0;
  (void)state;
  assert_true(oracle_keep(o, &pair));
  assert_false(oracle_has_sink(o));
  assert_near("score", oracle_score(o, &pair, 1.25, &slope), 1.25, 0);
  assert_near("derivative", slope, 1, 0);
  oracle_free(o);
}

static void masks_answer_as_the_same_c_expression(void **state) {
  oracle *band = compiled("k q le q k sub 3 lt and k 1 eq or", "");
  oracle *odd = compiled("k q ne k q neg 2.5e0 mul add -1 gt k 0 ge and and not", "");
  (void)state;
  for (int64_t q = -8; q < 8; ++q)
    for (int64_t k = 0; k < 8; ++k) {
      cli_pair pair = at(q, k);
      assert_int_equal(oracle_keep(band, &pair), (k <= q && q - k < 3) || k == 1);
      assert_int_equal(oracle_keep(odd, &pair), !(k != q && (double)k - 2.5 * (double)q > -1));
    }
  oracle_free(band);
  oracle_free(odd);
}

/* ---- Every word -------------------------------------------------------------------------- */

/* A score, the value it has at s = 0.75 of batch 1, head 2, q = 4, k = 6. */
static const struct known {
  const char *words;
  double value;
} values[] = {
    {"s", 0.75},
    {"q", 4},
    {"k", 6},
    {"head", 2},
    {"batch", 1},
    {"seqlen_q", 5},
    {"seqlen_k", 8},
    {"heads_q", 4},
    {"heads_kv", 2},
    {"s neg", -0.75},
    {"s 1 sub abs", 0.25},
    {"s exp", 2.1170000166126748},
    {"s log", -0.2876820724517809},
    {"s tanh", 0.6351489523872873},
    {"s sigmoid", 0.679178699175393},
    {"s 2 mul floor", 1},
    {"0 not", 1},
    {"7 2 add", 9},
    {"7 2 sub", 5},
    {"7 2 mul", 14},
    {"7 2 div", 3.5},
    {"7 2 idiv", 3},
    {"-7 2 idiv", -4},
    {"7 -2 idiv", -4},
    {"-7 -2 idiv", 3},
    {"7 3 mod", 1},
    {"-7 3 mod", 2},
    {"7 -3 mod", -2},
    {"-7 -3 mod", -1},
    {"-6 3 mod", 0},
    {"7 2 min", 2},
    {"7 2 max", 7},
    {"7 2 lt", 0},
    {"2 2 le", 1},
    {"2 2 gt", 0},
    {"2 2 ge", 1},
    {"2 2 eq", 1},
    {"2 2 ne", 0},
    {"1 0 and", 0},
    {"1 0 or", 1},
    {"1 7 2 select", 7},
    {"0 7 2 select", 2},
};

static void every_word_has_its_meaning(void **state) {
  cli_pair pair = at(4, 6);
  double slope;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(values); ++i) {
    oracle *o = compiled("", values[i].words);
    assert_near(values[i].words, oracle_score(o, &pair, 0.75, &slope), values[i].value, 1e-15);
    oracle_free(o);
  }
}

static void derivatives_agree_with_differences(void **state) {
  static const char *const scores[] = {
      "s 2 mul",
      "s s mul s mul q add",
      "3 s sub k q sub 0.5 mul add",
      "s neg s mul s 0 gt mul",
      "s abs s mul",
      "s exp s mul",
      "s s mul 1 add log",
      "2 s 2 div tanh mul",
      "s sigmoid s mul",
      "1 s s mul 2 add div",
      "s s s mul min",
      "s s s mul 1 sub max s mul",
      "s floor s mul",
      "s 0.7 idiv s mul",
      "s 0.3 lt s s mul s neg select",
      "s -0.6 ge 5 s sub s not select",
  };
  cli_pair pair = at(3, 7);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(scores); ++i) {
    oracle *o = compiled("", scores[i]);
    double slope, unused, h = 1e-5;
    for (double s = -2.27; s < 2.5; s += 0.5) {
      double above = oracle_score(o, &pair, s + h, &unused);
      double below = oracle_score(o, &pair, s - h, &unused);
      oracle_score(o, &pair, s, &slope);
      assert_near(scores[i], slope, (above - below) / (2 * h), 1e-8);
    }
    oracle_free(o);
  }
}

static double slope_at(const char *score, double s) {
  oracle *o = compiled("", score);
  cli_pair pair = at(0, 0);
  double slope = NAN;
  oracle_score(o, &pair, s, &slope);
  oracle_free(o);
  return slope;
}

static void a_tie_has_the_derivative_of_the_first(void **state) {
  (void)state;
  assert_near("abs", slope_at("s abs", 0), 1, 0);
  assert_near("min", slope_at("s 3 mul s 2 mul min", 0), 3, 0);
  assert_near("max", slope_at("s 3 mul s 2 mul max", 0), 3, 0);
  assert_near("min with a constant", slope_at("1 s min", 1), 0, 0);
  assert_near("max with a constant", slope_at("s 1 max", 1), 1, 0);
}

static void what_has_steps_has_no_derivative(void **state) {
  (void)state;
  assert_near("floor", slope_at("s floor", 0.4), 0, 0);
  assert_near("idiv", slope_at("s 0.7 idiv", 0.4), 0, 0);
  assert_near("mod", slope_at("s 0.7 mod", 0.4), 0, 0);
  assert_near("lt", slope_at("s 0.7 lt", 0.4), 0, 0);
}

static void what_is_not_taken_leaves_no_trace(void **state) {
  (void)state;
  assert_near("select", slope_at("s 0 gt s log s select", -1), 1, 0);
  assert_near("a constant of infinite slope", slope_at("s 0 log exp add", 1), 1, 0);
}

/* The value of every step is an f32: 2^24 + 1 is none. */
static void f32_rounds_every_step(void **state) {
  oracle *o = compiled("", "16777216 k add 16777216 sub s add");
  cli_pair pair = at(0, 1);
  double slope;
  (void)state;
  assert_near("double", oracle_score(o, &pair, 0.1, &slope), 1.1, 1e-15);
  assert_near("f32", oracle_score_f32(o, &pair, 0.1, &slope), (double)0.1f, 0);
  oracle_free(o);
}

/* A GPU's tanh errs by a part of 1, however small it is; its slope is that of the exact one. */
static void tanh_of_a_gpu_has_steps(void **state) {
  oracle *o = compiled("", "s 32 div tanh 32 mul");
  cli_pair pair = at(0, 1);
  double slope, exact_slope, largest = 0;
  (void)state;
  for (int i = 1; i <= 1000; ++i) {
    const double s = i * 1.3e-3;
    const double exact = oracle_score(o, &pair, s, &exact_slope);
    const double error = fabs(oracle_score_gpu(o, &pair, s, &slope) - exact);
    assert_near("slope", slope, exact_slope, 1e-6);
    if (error > largest) largest = error;
  }
  if (!(largest > 30 * 0x1p-23 && largest < 33 * 0x1p-23))
    fail_msg("largest error %.3e; 32 halves of a step of 2^-22 wanted", largest);
  oracle_free(o);
}

/* ---- Parameters -------------------------------------------------------------------------- */

static double cap[1], slopes[4], by_q[10], by_k[16], table[5], by_head[12];
static const oracle_param params[] = {
    {ORACLE_SCALAR, 0, cap, 1},    {ORACLE_PER_HEAD, 0, slopes, 1},
    {ORACLE_PER_Q, 0, by_q, 1},    {ORACLE_PER_K, 0, by_k, 0},
    {ORACLE_INDEXED, 5, table, 1}, {ORACLE_INDEXED_PER_HEAD, 3, by_head, 1},
};
enum { SLOTS = COUNT_OF(params) };
static double *const stored[SLOTS] = {cap, slopes, by_q, by_k, table, by_head};
static const size_t counts[SLOTS] = {1, 4, 10, 16, 5, 12};

static void fill_params(void) {
  for (size_t slot = 0; slot < SLOTS; ++slot)
    for (size_t i = 0; i < counts[slot]; ++i)
      stored[slot][i] = 1 + (double)slot + 0.125 * (double)i;
}

static oracle *with_params(const char *keep, const char *score, const char *sink) {
  fill_params();
  return compiled_with(&(oracle_words){keep, score, sink}, params, SLOTS);
}

static void parameters_are_read_where_the_pair_is(void **state) {
  static const struct known reads[] = {
      {"p0", 1},
      {"p1", 2 + 0.125 * 2},       /* head 2 */
      {"p2", 3 + 0.125 * (5 + 1)}, /* batch 1, row 1 */
      {"p3", 4 + 0.125 * (8 + 6)}, /* batch 1, key 6 */
      {"k q sub t4", 5 + 0.125 * 2},
      {"-1 t4", 5},
      {"5 t4", 5 + 0.125 * 4}, /* clamped to the last of 5 */
      {"1 t5", 6 + 0.125 * (2 * 3 + 1)},
      {"9 t5", 6 + 0.125 * (2 * 3 + 2)},
      {"n4", 5},
      {"n5", 3},
      {"2 t4 t5", 6 + 0.125 * (2 * 3 + 2)},
  };
  cli_pair pair = at(4, 6);
  double slope;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(reads); ++i) {
    oracle *o = with_params("", reads[i].words, reads[i].words);
    assert_near(reads[i].words, oracle_score(o, &pair, 0, &slope), reads[i].value, 0);
    if (strcmp(reads[i].words, "p3"))
      assert_near(reads[i].words, oracle_sink(o, &pair), reads[i].value, 0);
    oracle_free(o);
  }
  oracle *o = with_params("p3 5.75 eq", "", "");
  assert_true(oracle_keep(o, &pair));
  pair.key = 5;
  assert_false(oracle_keep(o, &pair));
  oracle_free(o);
}

static double evaluated(const oracle *o, int sink, const cli_pair *pair) {
  double slope;
  return sink ? oracle_sink(o, pair) : oracle_score(o, pair, 0.6, &slope);
}

/* Sums 2 and 3 times the gradients and sizes, and compares every element. */
static void assert_param_gradients(const char *words, int sink) {
  double gradient[SLOTS][16] = {{0}}, noise[SLOTS][16] = {{0}};
  double *gradients[SLOTS], *noises[SLOTS];
  oracle_sums sums = {gradients, noises};
  cli_pair pair = at(4, 6);
  for (size_t slot = 0; slot < SLOTS; ++slot) {
    gradients[slot] = params[slot].grad ? gradient[slot] : NULL;
    noises[slot] = params[slot].grad ? noise[slot] : NULL;
  }
  oracle *o = with_params("", sink ? "" : words, sink ? words : "");
  if (sink)
    oracle_add_sink(o, &pair, 2, 3, &sums);
  else
    oracle_add_score(o, &pair, 0.6, 2, 3, &sums);
  for (size_t slot = 0; slot < SLOTS; ++slot)
    for (size_t i = 0; i < counts[slot] && params[slot].grad; ++i) {
      double kept = stored[slot][i], h = 1e-5;
      stored[slot][i] = kept + h;
      double above = evaluated(o, sink, &pair);
      stored[slot][i] = kept - h;
      double below = evaluated(o, sink, &pair);
      stored[slot][i] = kept;
      double wanted = 2 * (above - below) / (2 * h);
      assert_near(words, gradient[slot][i], wanted, 1e-8 * fmax(1, fabs(wanted)));
      assert_true(noise[slot][i] >= 0 && (noise[slot][i] > 0) == (gradient[slot][i] != 0));
    }
  oracle_free(o);
}

static void parameter_gradients_agree_with_differences(void **state) {
  static const char *const scores[] = {
      "s p0 div tanh p0 mul",          "s p1 k q sub mul add",
      "s p2 mul p3 add p2 p2 mul add", "s k q sub t4 add k t4 s mul add",
      "s k q sub t5 exp mul p0 sub",   "1 t4 2 t4 mul 1 t4 mul s mul",
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(scores); ++i) assert_param_gradients(scores[i], 0);
  assert_param_gradients("p1 p0 mul 1 t5 add", 1);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static void assert_refused(const oracle_words *words, const char *says) {
  oracle *out = NULL;
  expect_refused(oracle_compile(&out, words, &sizes, params, SLOTS), FA_INVALID, says);
  assert_null(out);
}

static void wrong_words_are_refused_by_name(void **state) {
  static const char *const refused[][2] = {
      {"k q lessthan", "'lessthan'"},
      {"k q le and", "'and' takes 2 values, 1 on the stack"},
      {"k q select", "'select' takes 3 values, 2 on the stack"},
      {"neg", "'neg' takes 1 values, 0 on the stack"},
      {"t4", "'t4' takes 1 values, 0 on the stack"},
      {"k q", "leaves 2 values"},
      {"k  q le", "''"},
      {"k q le ", "''"},
      {"k 0x10 mul", "'0x10'"},
      {"k nan mul", "'nan'"},
      {"k 1e999 mul", "'1e999'"},
      {"k 1.2.3 mul", "'1.2.3'"},
      {"k p6 mul", "'p6'"},
      {"k p mul", "'p'"},
      {"k p4 mul", "'p4'"},
      {"k p1 t1 mul", "'t1'"},
      {"k n1 mul", "'n1'"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(refused); ++i) {
    assert_refused(&(oracle_words){refused[i][0], "", ""}, refused[i][1]);
    assert_refused(&(oracle_words){"", refused[i][0], ""}, refused[i][1]);
    assert_refused(&(oracle_words){"", "", refused[i][0]}, refused[i][1]);
  }
  assert_refused(&(oracle_words){"k s le", "", ""}, "'s' in a mask");
  assert_refused(&(oracle_words){"", "", "s"}, "'s' in a sink");
}

/* Adds to `words` so many different products of q, or of elements of table 4, one after the other.
   */
static void add_terms(char *words, int count, const char *format) {
  for (int i = 0; i < count; ++i) {
    sprintf(words + strlen(words), format, i);
    strcat(words, i ? " add " : " ");
  }
  words[strlen(words) - 1] = '\0';
}

static void more_than_there_is_room_for_is_refused(void **state) {
  static char words[16384];
  (void)state;
  for (int i = 0; i < 64; ++i) strcat(words, "k ");
  strcat(words, "k");
  assert_refused(&(oracle_words){words, "", ""}, "at most 64");
  words[0] = '\0';
  add_terms(words, 33, "%d t4");
  assert_refused(&(oracle_words){"", words, ""}, "more than 32 elements");
  words[0] = '\0';
  add_terms(words, 300, "q %d mul");
  assert_refused(&(oracle_words){"", words, ""}, "more than 512 different steps");
}

/* A composed score repeats the words of what it is made of: 512 times here. */
static void words_that_repeat_cost_nothing(void **state) {
  static char words[16384];
  cli_pair pair = at(0, 0);
  double slope;
  (void)state;
  strcpy(words, "s p0 mul");
  for (int i = 0; i < 9; ++i) {
    static char twice[16384];
    assert_true(snprintf(twice, sizeof twice, "%s %s add", words, words) < (int)sizeof twice);
    strcpy(words, twice);
  }
  oracle *o = with_params("", words, "");
  assert_near("512 s", oracle_score(o, &pair, 0.25, &slope), 128, 0);
  assert_near("slope", slope, 512, 0);
  oracle_free(o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_words_keep_everything_unchanged),
      cmocka_unit_test(masks_answer_as_the_same_c_expression),
      cmocka_unit_test(every_word_has_its_meaning),
      cmocka_unit_test(derivatives_agree_with_differences),
      cmocka_unit_test(a_tie_has_the_derivative_of_the_first),
      cmocka_unit_test(what_has_steps_has_no_derivative),
      cmocka_unit_test(what_is_not_taken_leaves_no_trace),
      cmocka_unit_test(f32_rounds_every_step),
      cmocka_unit_test(tanh_of_a_gpu_has_steps),
      cmocka_unit_test(parameters_are_read_where_the_pair_is),
      cmocka_unit_test(parameter_gradients_agree_with_differences),
      cmocka_unit_test(wrong_words_are_refused_by_name),
      cmocka_unit_test(words_that_repeat_cost_nothing),
      cmocka_unit_test(more_than_there_is_room_for_is_refused),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
