/* test_variant_files.c: what can be wrong in a variant's file, each told with its file and line; what is
   derived from a right one; and what becomes of parameters. */
#include "rendering.h"
#include "support/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_variant(const char *name, const char *body) {
  char file[64], text[2048];
  snprintf(file, sizeof file, "variants/%s.lua", name);
  snprintf(text, sizeof text, "return variant {\n  doc = 'x',\n%s\n}\n", body);
  overlay_write(&folder, file, text);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

static void assert_refused(const template_case *cases, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    render_result result;
    write_variant("bad", cases[i].text); /* its first line is the third of the file */
    fa_status status = render_words(&result, "bwd cpu f32 d64 bad");
    if (status != FA_TEMPLATE) fail_msg("%s: %s", cases[i].what, fa_status_name(status));
    expect_words(cases[i].what, fa_error_message(), cases[i].wanted);
  }
}

static void expressions_that_cannot_be_are_refused(void **state) {
  static const template_case cases[] = {
      {"if", "score = function(s)\n  if s then return s end\nend", "/bad.lua:4: |if|select("},
      {"and", "keep = function(at)\n  return lt(at.k, 3) and lt(at.q, 3)\nend", ":4: |and|a & b"},
      {"or", "keep = function(at) return lt(at.k, 3)\n or lt(at.q, 3) end", ":4: |or|a | b"},
      {"not", "keep = function(at) return not lt(at.k, 3) end", ":3: |not|~a"},
      {"==", "keep = function(at) return at.k == at.q end", ":3: |==|eq(a, b)"},
      {"~=", "keep = function(at) return at.k ~= at.q end", ":3: |~=|ne(a, b)"},
      {"<", "keep = function(at)\n return at.k < at.q end", ":4: |lt(a, b)"},
      {"^", "score = function(s)\n local x = s ^ 2 return x end", ":4: |there is no ^"},
      {"..", "score = function(s)\n local x = s .. 2 return x end", ":4: |.."},
      {"#", "score = function(s)\n local x = #s return x end", ":4: |length"},
      {"a call", "score = function(s)\n local x = s(2) return x end", ":4: |no function"},
      {"an unknown symbol", "score = function(s, at)\n return s + at.row end", ":4: |at.row"},
      {"a field", "score = function(s)\n return s.value end", ":4: |no field 'value'"},
      {"an assignment", "score = function(s)\n s.x = 1 return s end", ":4: |cannot be changed"},
      {"a cycle", "score = function(s)\n local x = s + 1 x[1] = x return x end",
       "/bad.lua:3: |contains itself"},
      {"an operand that is none", "score = function(s)\n local x = s + 1 x[1] = 2 return x end",
       "/bad.lua:3: |was changed"},
      {"itself for ever",
       "score = function(s)\n local function f(x) return f(x) + 1 end\n"
       " return f(s) end",
       "/bad.lua:4|stack overflow"},
      {"a truth in a sum", "score = function(s)\n return s + lt(s, 1) end", ":4: |a number, not"},
      {"a truth beside a number", "score = function(s)\n return select(lt(s, 1), s, lt(s, 2)) end",
       ":3: |one of each"},
      {"a number as condition", "score = function(s)\n return select(s, s, s) end",
       ":3: |a truth, not a number"},
      {"infinity", "score = function(s)\n return s + 1 / 0 end", ":4: |finite"},
      {"a string", "score = function(s)\n return max(s, 'x') end", ":3: |string"},
      {"nothing kept", "keep = function(at)\n  return lt(at.k, at.k)\nend",
       "/bad.lua:3: |false for every pair"},
      {"nothing kept, in sums", "keep = function(at) return eq(at.k - at.q + 1, at.k - at.q) end",
       "/bad.lua:3: |false for every pair"},
      {"nothing kept, by a constant", "keep = function(at) return lt(at.k, at.q) & gt(3, 5) end",
       "/bad.lua:3: |false for every pair"},
      {"nothing kept, by two comparisons",
       "keep = function(at) return lt(at.k, at.q) & gt(at.k, at.q) end",
       ":3: |false for every pair"},
      {"nothing kept, by limits of a sum",
       "keep = function(at) return gt(at.k - at.q, 5) & ~le(at.q - at.k + 4, 2) end",
       ":3: |false for every pair"},
      {"nothing kept, of each alternative",
       "keep = function(at)\n  local d = at.k - at.q\n"
       "  return select(lt(at.head, 2), eq(d, 3) & ne(3, d), gt(d, 1) & le(d, 1)) end",
       ":3: |false for every pair"},
      {"nothing kept, whatever a parameter is",
       "params = { a = i32 },\n"
       "keep = function(at, p) return lt(at.k, at.q - p.a) & gt(at.k + p.a, at.q) end",
       ":4: |false for every pair"},
      {"nothing kept, of remainders",
       "keep = function(at) return eq(at.k % 3, 1) & eq(at.k % 3, 2) end",
       ":3: |false for every pair"},
      {"nothing kept, beside many alternatives",
       "keep = function(at)\n  local all = lt(at.k, at.q)\n"
       "  for i = 1, 40 do all = all & (lt(at.head, i) | lt(at.batch, i)) end\n"
       "  return all & ge(at.k, at.q) end",
       ":3: |false for every pair"},
      {"nothing kept, before the first key", "keep = function(at) return lt(at.k, 0) end",
       ":3: |false for every pair"},
      {"a division by 0", "keep = function(at) return eq(at.k % 0, 1) end", ":3: |may be 0"},
      {"a parameter that may be 0",
       "params = { n = i32 },\nkeep = function(at, p) return eq(at.k % p.n, 1) end",
       ":4: |may be 0|min of 1"},
      {"an integer too large", "keep = function(at) return lt(at.k * at.k * at.k, 1) end",
       ":3: |2^62"},
      {"a mask of scores",
       "score = function(s) kept = s return s end,\nkeep = function(at) return lt(kept, 1) end",
       "/bad.lua:3: |global"},
      {"a sink by key", "sink = function(at) return at.k end", "/bad.lua:3: |sink|at.k"},
      {"a sink by query",
       "params = { a = f32 { per = 'q' } },\nsink = function(at, p) return p.a end",
       "/bad.lua:4: |sink|'q'"},
      {"a sink that is a truth", "sink = function(at) return lt(at.head, 1) end",
       "/bad.lua:3: |sink must return a number"},
  };
  (void)state;
  assert_refused(cases, COUNT_OF(cases));
}

static void declarations_that_cannot_be_are_refused(void **state) {
#define KEEP "keep = function(at) return le(at.k, at.q) end,\nparams = { "
  static const template_case cases[] = {
      {"no declaration", KEEP "a = 1 }", "/bad.lua|'a'|f32, i32"},
      {"a name", KEEP "['A b'] = f32 }", "/bad.lua|'A b'|a name is"},
      {"an unknown option", KEEP "a = f32 { low = 1 } }", ":4: |unknown field 'low'"},
      {"an option's type", KEEP "a = f32 { min = '1' } }", ":4: |min must be a number"},
      {"per", KEEP "a = f32 { per = 'row' } }", ":4: |'row'|'head', 'q' or 'k'"},
      {"per with size", KEEP "a = f32 { per = 'k', size = 'n' } }", ":4: |per = 'head'"},
      {"longest alone", KEEP "a = f32 { longest = 3 } }", ":4: |longest"},
      {"a limit of a table", KEEP "a = f32 { size = 'n', min = 0 } }", ":4: |for a scalar"},
      {"a limit that is no i32", KEEP "a = i32 { min = 0.5 } }", ":4: |whole number"},
      {"a limit beyond 32 bits", KEEP "a = i32 { max = 1 << 31 } }", ":4: |32 bits"},
      {"the gradient of an integer", KEEP "a = i32 { grad = true } }", ":4: |no gradient"},
      {"a draw outside", KEEP "a = f32 { above = 0, draw = { 0, 1 } } }", ":4: |draw"},
      {"no draw inside", KEEP "a = f32 { min = 5 } }", ":4: |draw"},
      {"a draw of one", KEEP "a = f32 { draw = { 1 } } }", ":4: |two numbers"},
      {"a size that is a parameter", KEEP "n = i32, a = f32 { size = 'n' } }", "/bad.lua|'n'|both"},
      {"no such parameter",
       "params = { a = f32, b = i32 },\nscore = function(s, at, p)\n"
       "  return s + p.c end",
       ":5: |p.c|p.a p.b"},
      {"no parameters", "score = function(s, at, p)\n  return s + p.c end", ":4: |p.c|none"},
      {"a table without index",
       "params = { a = f32 { size = 'n' } },\n"
       "score = function(s, at, p)\n  return s + p.a end",
       ":5: |index it"},
      {"an index that is real",
       "params = { a = f32 { size = 'n' } },\n"
       "score = function(s, at, p)\n  return s + p.a[s] end",
       ":5: |p.a|integer"},
      {"a changed parameter",
       "params = { a = f32 },\nscore = function(s, at, p)\n  p.a = 1\n"
       "  return s end",
       ":5: |cannot be changed"},
  };
  (void)state;
  assert_refused(cases, COUNT_OF(cases));
}

static void variants_that_do_not_go_together_are_refused(void **state) {
  render_result result;
  (void)state;
  write_variant("drain", "sink = function(at) return at.head end");
  expect_refused(render_words(&result, "fwd cpu f32 d64 sink drain"), FA_TEMPLATE,
                 "sink and drain|one");
  write_variant("a", "params = { b_c = f32 }, score = function(s, at, p) return s + p.b_c end");
  write_variant("a_b", "params = { c = f32 }, score = function(s, at, p) return s + p.c end");
  expect_refused(render_words(&result, "fwd cpu f32 d64 a a_b"), FA_TEMPLATE, "a.b_c|a_b.c|rename");
  write_variant("ahead", "keep = function(at) return gt(at.k, at.q) end");
  expect_refused(render_words(&result, "fwd cpu f32 d64 causal ahead"), FA_TEMPLATE,
                 "keep no pair together");
  write_variant("left", "keep = function(at) return lt(at.k, at.q) end");
  write_variant("right", "keep = function(at) return ne(1, 1) | lt(at.k, at.q) end");
  expect_ok(render_words(&result, "fwd cpu f32 d64 left right"));
  render_free(&result);
}

/* Nothing is said of what depends on lengths, parameters or the values of tables. */
static void masks_that_may_be_empty_are_not_refused(void **state) {
  static const char *const kept[] = {
      "keep = function(at) return lt(at.k, at.q) | gt(at.k, at.q) end",
      "keep = function(at) return ge(at.k, at.q) & le(at.k, at.q) end",
      "keep = function(at) return ne(at.k, at.q) & le(at.k, at.q) & ge(at.k, at.q - 1) end",
      "keep = function(at) return gt(at.k, 1000) & lt(at.k, at.seqlen_q) end",
      "keep = function(at) return lt(at.k, at.seqlen_q) & gt(at.k, at.seqlen_k - 3) end",
      "params = { a = i32, b = i32 },\n"
      "keep = function(at, p) return gt(at.k - at.q, p.a) & lt(at.k - at.q, p.b) end",
      "params = { a = i32 { min = -1 } },\n"
      "keep = function(at, p) return lt(p.a, 0) & gt(at.k, at.q - p.a) end",
      "params = { t = i32 { size = 'n' } },\n"
      "keep = function(at, p) return lt(p.t[at.k], 3) & gt(p.t[at.q], 3) end",
      "keep = function(at) return lt(at.k * 0.5, 3) & gt(at.k * 0.5, 2) end",
      "keep = function(at) return eq(at.k % 3, 1) & eq(at.k % 5, 2) end",
      "keep = function(at)\n  local all = lt(at.k, at.q)\n"
      "  for i = 1, 40 do all = all & (lt(at.head, i) | lt(at.k, i)) end return all end",
      "keep = function(at)\n" /* too many alternatives to be looked at */
      "  local all = (lt(at.k, 4) | lt(at.k, 5)) & (gt(at.k, 8) | gt(at.k, 9))\n"
      "  for i = 1, 40 do all = all & (lt(at.head, i) | lt(at.batch, i)) end return all end"};
  render_result result;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kept); ++i) {
    write_variant("sparse", kept[i]);
    if (render_words(&result, "fwd cpu f32 d64 sparse"))
      fail_msg("%s: %s", kept[i], fa_error_message());
    render_free(&result);
  }
}

/* ---- Strings and comments are no code -------------------------------------------------------- */

static void words_in_strings_and_comments_are_free(void **state) {
  render_result result;
  (void)state;
  overlay_write(&folder, "variants/told.lua",
                "-- if and or not == ~=\n--[==[ if ]] and\n]==]\n"
                "return variant { doc = \"if \\\" and == 'x'\", -- or\n"
                "  keep = function(at) return lt(at.k, at.q) end }\n");
  expect_ok(render_words(&result, "fwd cpu f32 d64 told"));
  render_free(&result);
}

/* ---- What is derived ------------------------------------------------------------------------ */

/* The kernel from its main entry on has every part of `wanted`. */
static void assert_text(const char *words, const char *wanted) {
  render_result result;
  expect_ok(render_words(&result, words));
  expect_words(words, strstr(result.kernel.text, "_main("), wanted);
  render_free(&result);
}

static void derivatives_share_and_cancel(void **state) {
  (void)state;
  assert_text("bwd cpu f32 d64 softcap",
              "const float tanh_1 = ops->tanh(s[i * KEYS + j] / a->p.softcap_cap);|"
              "ds_factor[i * KEYS + j] = 1.0f - tanh_1 * tanh_1;|"
              "s[i * KEYS + j] = a->p.softcap_cap * tanh_1;");
  write_variant("branch", "score = function(s) return select(gt(s, 0), log(s), 3 * s) end");
  assert_text("bwd cpu f32 d64 branch",
              "const int gt_1 = s[i * KEYS + j] > 0.0f;|"
              "ds_factor[i * KEYS + j] = gt_1 ? 1.0f / s[i * KEYS + j] : 3.0f;");
  write_variant("kinks", "score = function(s) return max(s, 0) + min(2, s) + abs(s) end");
  assert_text("bwd cpu f32 d64 kinks",
              "const int ge_1 = s[i * KEYS + j] >= 0.0f;|(ge_1 ? 1.0f : 0.0f) +|"
              "(2.0f <= s[i * KEYS + j] ? 0.0f :|(ge_1 ? 1.0f : -1.0f)");
}

static void integers_stay_integers(void **state) {
  (void)state;
  write_variant("whole", "keep = function(at) return eq((at.q - 7) // 2 % 3, at.k % 4) end");
  assert_text("fwd cpu f32 d64 whole",
              "floor_mod(floor_div(q_position - 7, 2), 3) == k_position % 4");
}

/* On a GPU two limits of the distance are one comparison, a division of positions by blocks is none,
   and a spec that has no variants has nothing of all this. */
static void gpu_masks_are_short(void **state) {
  render_result result;
  static const char *const absent[] = {"parameters", "FAR", "_search", "unsigned)(k", "uniform_"};
  (void)state;
  assert_text("fwd sm90 bf16 d64 causal window",
              "(unsigned)(k_position - (q_position + uniform_1)) < (unsigned)uniform_2");
  write_variant("blocks", "keep = function(at) return eq(at.k // 8, at.q // 8) end");
  assert_text("bwd sm80 bf16 d64 blocks", "floor_div(q_position, 8) * 8|_main(|a.searched[");
  expect_ok(render_words(&result, "fwd sm90 bf16 d64 blocks"));
  assert_null(strstr(strstr(result.kernel.text, "_main("), "k_position / 8"));
  render_free(&result);
  expect_ok(render_words(&result, "fwd sm90 bf16 d64 causal"));
  for (size_t i = 0; i < COUNT_OF(absent); ++i)
    if (strstr(result.kernel.text, absent[i])) fail_msg("'%s' without a variant", absent[i]);
  render_free(&result);
}

/* In a loop over keys a distance grows by a multiply-add, whose sign a mask may tell; a scale and a cap
   are no factors of each score; four tanh take one division, but only where all four pairs are
   kept. What jumps is reckoned as it is written. */
static void gpu_scores_are_short(void **state) {
  (void)state;
  assert_text("fwd sm90 bf16 d64 causal alibi",
              "begin_1[row] = multiply((float)(q_position - k_position), uniform_1);|"
              "s[i] = multiply_add(s[i], args.softmax_scale, multiply_add(alibi_slopes,");
  assert_text("fwd sm90 bf16 d64 window alibi",
              "begin_1[row] = (float)(q_position - k_position);|magnitude(multiply_add(-1.0f,");
  assert_text("fwd sm90 bf16 d64 causal softcap",
              "const float slope = multiply(args.p.softcap_cap, LOG2_E);|"
              "s[i] = multiply_add(inverse_of(one_and_power(multiply(s[i], uniform_1))), -2.0f,|"
              "inverse_1[e] = one_and_power(multiply(s[i], uniform_1));|invert_four(inverse_1);|"
              "multiply_add(state.peak[row], args.p.softcap_cap,");
  write_variant("ahead", "score = function(s, at) return s + 0.5 * abs(at.k - at.q + 3) end");
  assert_text("fwd sm90 bf16 d64 causal ahead", "magnitude(");
  write_variant("behind", "score = function(s, at) return s + 0.5 * abs(at.k - at.q - 3) end");
  assert_text("fwd sm90 bf16 d64 causal behind",
              "begin_1[row] = multiply((float)-(k_position - q_position - 3), 0.5f);");
  write_variant("jumps", "score = function(s) return floor(s) + tanh(s) end");
  assert_text("fwd sm90 bf16 d64 jumps", "rounded_down(mul_1)|hyperbolic_tangent(mul_1)");
}

/* Gradients by tables keep the pairs of a tile in shared memory, of which a block has so much. */
static void more_tables_than_a_block_holds_are_refused_in_words(void **state) {
  char body[2048] = "params = {";
  char score[512] = "},\nscore = function(s, at, p) return s";
  render_result result;
  (void)state;
  for (int i = 0; i < 13; ++i) {
    const size_t used = strlen(body), said = strlen(score);
    snprintf(body + used, sizeof body - used, " t%d = f32 { size = 'n%d', grad = true },", i, i);
    snprintf(score + said, sizeof score - said, " + p.t%d[at.k - at.q]", i);
  }
  strcat(strcat(body, score), " end");
  write_variant("many", body);
  expect_refused(render_words(&result, "bwd sm80 bf16 d256 cc86 many"), FA_UNSUPPORTED,
                 "target sm80|bwd|at most 12 tables|13");
  static const char *const right[] = {"fwd sm80 bf16 d256 cc86 many", "bwd sm80 bf16 d64 cc86 many",
                                      "bwd sm80 bf16 d256 many", "bwd sm90 bf16 d256 many"};
  for (size_t i = 0; i < COUNT_OF(right); ++i) {
    expect_ok(render_words(&result, right[i]));
    render_free(&result);
  }
}

static void parameters_come_in_slot_order(void **state) {
  static const char *const names[] = {"window.left", "window.right", "softcap.cap", "alibi.slopes"};
  render_result result;
  (void)state;
  expect_ok(render_words(&result, "fwd cpu f32 d64 causal window softcap alibi"));
  assert_int_equal(result.params.count, COUNT_OF(names));
  for (int i = 0; i < result.params.count; ++i)
    assert_int_equal(params_find(&result.params, names[i]), i);
  const variant_param *left = &result.params.items[0], *cap = &result.params.items[2];
  assert_true(left->is_int && left->has_min && left->min == -1 && left->draw_to_seqlen_k);
  assert_true(!cap->is_int && cap->has_above && cap->above == 0 && cap->draw_high == 50);
  assert_int_equal(result.params.items[3].per, PARAM_PER_HEAD);
  for (int i = 0; i < result.params.count; ++i) assert_int_equal(result.params.items[i].line, 4);
  assert_int_equal(params_find(&result.params, "window"), -1);
  assert_int_equal(params_find(&result.params, "window.lef"), -1);
  render_free(&result);
}

/* Also of f32 by itself, which nothing calls; not that of a comment, nor of a text that is none. */
static void parameters_know_their_line(void **state) {
  static const int lines[] = {3, 5, 7, 9, 0};
  render_result result;
  (void)state;
  write_variant("placed", "params = { a = f32 { min = 0 },\n  -- b = f32\n  b = f32,\n"
                          "  c =\n    i32 {\n    min = -1 },\n  d = i32, ['e'] = f32 },\n"
                          "score = function(s) return s + 1 end");
  expect_ok(render_words(&result, "fwd cpu f32 d64 placed"));
  assert_int_equal(result.params.count, COUNT_OF(lines));
  for (int i = 0; i < result.params.count; ++i)
    if (result.params.items[i].line != lines[i])
      fail_msg("%s: line %d, not %d", result.params.items[i].name, result.params.items[i].line,
               lines[i]);
  render_free(&result);
}

/* A fault in a file of words that params_parse does not know must not pass. */
static void parameter_text_is_checked(void **state) {
  static const char *const faulty[] = {
      "softcap",
      "a b - f32 - - - - - - - 0 1 4",
      "a b - f32 - - - - - - - 0 1 ;",
      "a b - f32 row - - - - - - 0 1 4 ;",
      "a b - f32 - - - - - - - 0 1 4 ; ;",
      "a b - f32 - - - - - - - 0 1 4 ;\n\n",
      "a 0123456789012345678901234567890123456789 - f32 - - - - - - - 0 1 4 ;"};
  param_list list;
  (void)state;
  expect_ok(params_parse(&list, ""));
  assert_int_equal(list.count, 0);
  expect_ok(params_parse(&list, "a b - f32 - - - - - - - 0 1 4 ;"));
  assert_int_equal(list.count, 1);
  for (size_t i = 0; i < COUNT_OF(faulty); ++i)
    expect_refused(params_parse(&list, faulty[i]), FA_TEMPLATE, "parameters: ");
}

int main(void) {
#define EMPTY(test) cmocka_unit_test_setup(test, rendering_empty)
  const struct CMUnitTest tests[] = {
      EMPTY(expressions_that_cannot_be_are_refused),
      EMPTY(declarations_that_cannot_be_are_refused),
      EMPTY(variants_that_do_not_go_together_are_refused),
      EMPTY(masks_that_may_be_empty_are_not_refused),
      EMPTY(words_in_strings_and_comments_are_free),
      EMPTY(derivatives_share_and_cancel),
      EMPTY(integers_stay_integers),
      EMPTY(gpu_masks_are_short),
      EMPTY(gpu_scores_are_short),
      EMPTY(more_tables_than_a_block_holds_are_refused_in_words),
      EMPTY(parameters_come_in_slot_order),
      EMPTY(parameters_know_their_line),
      EMPTY(parameter_text_is_checked),
  };
  return cmocka_run_group_tests(tests, rendering_begin, rendering_end);
}
