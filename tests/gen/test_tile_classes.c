/* test_tile_classes.c: which tiles a mask with parameters leaves out, and which it takes for full,
   against its own predicate pair by pair, for every variant that has a mask, with drawn parameters.
   Both ways of finding out are tested: the bounds of loops, in both orders, and the ranges of a
   tile. */
#include "gen/error.h"
#include "support/expect.h"

#include "fagen_plan.h"
#include "gen/bundle.h"
#include "rendering.h"
#include "runtime/jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The predicate, the class of a tile, and the loops over tiles of 16, of a problem with parameters. */
static const char template_text[] =
    "% local mask, names = require 'mask', require 'cpu.names'\n"
    "% include 'cpu/prelude.c.lua'\n"
    "\n"
    "% include 'cpu/tile_kept.c.lua'\n"
    "\n"
    "${paste 'fagen_plan.h'}\n"
    "\n"
    "% include 'parameters_steps.c.lua'\n"
    "typedef struct place { long long batch, head; } place;\n"
    "static void prepare(forward_args *a, const fa_problem *in) {\n"
    "  a->seqlen_q = in->seqlen_q;\n"
    "  a->seqlen_k = in->seqlen_k;\n"
    "  a->heads_q = in->heads_q;\n"
    "% if #require('params').slots > 0 then\n"
    "  set_parameters(&a->p, in);\n"
    "% end\n"
    "}\n"
    "int keep(const fa_problem *in, const place *at, long long q_position, long long k_position) "
    "{\n"
    "  forward_args args, *a = &args;\n"
    "  const long long batch = at->batch, head = at->head;\n"
    "  const long long row_first = q_position - in->seqlen_k + in->seqlen_q, i = 0;\n"
    "  prepare(a, in);\n"
    "  return ${mask.predicate(names)};\n"
    "}\n"
    "% local places = ''\n"
    "% for _, place in ipairs(require('interval').places(mask.keep, names)) do\n"
    "%   places = places .. 'at->' .. place .. ', '\n"
    "% end\n"
    "int class_of(const fa_problem *in, const place *at, const long long *ends) {\n"
    "  forward_args args;\n"
    "  prepare(&args, in);\n"
    "  return tile_kept(&args, ${places}ends[0], ends[1], ends[2], ends[3]);\n"
    "}\n"
    "% for walked, fixed in ('kq qk'):gmatch '(%a)(%a)' do\n"
    "void walk_${walked}(const fa_problem *in, const place *at, long long first, long long last,\n"
    "    signed char *masked) {\n"
    "  forward_args args, *a = &args;\n"
    "  const long long batch = at->batch, head = at->head, length = in->seqlen_${walked};\n"
    "  const long long tiles = (length + 15) / 16, shift = in->seqlen_k - in->seqlen_q;\n"
    "  prepare(a, in);\n"
    "%   local walk = mask.runs { walked = walked, fixed = fixed, first = 'first', last = 'last',\n"
    "%     tile = 16, tiles = 'tiles', length = 'length', names = names,\n"
    "%     shift = walked == 'q' and 'shift' or nil, integer = 'long long' }\n"
    "  ${walk.setup}\n"
    "%   for _, run in ipairs(walk.runs) do\n"
    "  for (long long tile = ${run.from}; tile < ${run.to}; ++tile)\n"
    "    masked[tile] = ${run.masked and 1 or 0};\n"
    "%   end\n"
    "}\n"
    "% end\n";

enum { NONE, SOME, ALL }; /* as cpu/tile_kept.c.lua has it */
enum { TILE = 16, LONGEST = 150, HEADS = 2, BATCH = 2, VALUES = 4 * LONGEST };

typedef struct place {
  long long batch, head;
} place;

typedef struct code {
  jit *code;
  param_list params;
  int (*keep)(const fa_problem *in, const place *at, long long q, long long k);
  int (*class_of)(const fa_problem *in, const place *at, const long long *ends);
  void (*walk[2])(const fa_problem *in, const place *at, long long first, long long last,
                  signed char *masked); /* keys walked; queries walked */
} code;

static int begin(void **state) {
  const int failed = rendering_begin(state);
  overlay_write(&folder, rendering_file, template_text);
  return failed;
}

/* Whether the words have a mask; then its code. */
static int compile(code *out, const char *words) {
  render_result rendered;
  fa_status status = render_words(&rendered, words);
  if (status == FA_TEMPLATE) return 0; /* a mask of nothing has no text here */
  expect_ok(status);
  const jit_unit unit = {"classes.c", &rendered.kernel};
  status = jit_compile(&out->code, &unit, 1);
  if (status) fail_msg("%s: %s", words, fa_error_message());
  *(void **)&out->keep = jit_symbol(out->code, "keep");
  *(void **)&out->class_of = jit_symbol(out->code, "class_of");
  *(void **)&out->walk[0] = jit_symbol(out->code, "walk_k");
  *(void **)&out->walk[1] = jit_symbol(out->code, "walk_q");
  jit_seal(out->code);
  out->params = rendered.params;
  render_free(&rendered);
  return 1;
}

/* ---- Parameters ----------------------------------------------------------------------------- */

static unsigned choose(unsigned below) {
  static uint64_t state = 7;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

static double draw(const variant_param *param, const fa_problem *in) {
  double high = param->draw_to_seqlen_k ? (double)in->seqlen_k : param->draw_high;
  double low = param->has_min ? param->min : param->draw_low; /* -1, no limit, is drawn too */
  if (high < low) high = low;
  if (param->is_int) return low + choose((unsigned)(high - low) + 1);
  return low + (high - low) * choose(1000) / 999;
}

/* Values enough for any table; sorted ones give tiles that are full. */
static void draw_table(fa_plan_param *out, const variant_param *param, const fa_problem *in,
                       int *values) {
  int sorted = choose(2), rows = param->per == PARAM_PER_HEAD ? HEADS : 1;
  out->length = rows * (1 + choose(20));
  if (!param->size[0]) out->length = VALUES;
  for (int i = 0; i < VALUES; ++i) {
    double value = draw(param, in);
    if (sorted && param->is_int) value = (double)i * value / VALUES;
    if (param->is_int)
      values[i] = (int)value;
    else
      ((float *)(void *)values)[i] = (float)value;
  }
  out->data = values;
}

static void draw_params(fa_plan_param *out, const code *of, const fa_problem *in,
                        int values[PARAMS_MAX][VALUES]) {
  for (int i = 0; i < of->params.count; ++i) {
    const variant_param *param = &of->params.items[i];
    out[i] = (fa_plan_param){.value = draw(param, in)};
    if (param_is_table(param)) draw_table(&out[i], param, in, values[i]);
  }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

typedef struct tally {
  long empty, full;             /* tiles that are so */
  long found_empty, found_full; /* of which that was seen from their ranges */
} tally;

static long long at_most(long long a, long long b) {
  return a < b ? a : b;
}

/* How many pairs of a tile are kept. */
static long long count_kept(const code *of, const fa_problem *in, const place *at,
                            const long long ends[4]) {
  long long count = 0;
  for (long long q = ends[0]; q <= ends[1]; ++q)
    for (long long k = ends[2]; k <= ends[3]; ++k) count += of->keep(in, at, q, k) != 0;
  return count;
}

static const char *fault_of(int masked, int class, long long kept, long long pairs) {
  if (masked < 0 && kept) return "the loop leaves out a kept pair";
  if (masked == 0 && kept < pairs) return "the loop takes for full what is not";
  if (class == NONE && kept) return "the ranges take for empty what is not";
  if (class == ALL && kept < pairs) return "the ranges take for full what is not";
  return NULL;
}

static void check_tile(const char *words, const code *of, const fa_problem *in, const place *at,
                       const long long ends[4], const int masked[2], tally *sum) {
  long long kept = count_kept(of, in, at, ends);
  long long pairs = (ends[1] - ends[0] + 1) * (ends[3] - ends[2] + 1);
  int class = of->class_of(in, at, ends);
  for (int walk = 0; walk < 2; ++walk) {
    const char *fault = fault_of(masked[walk], class, kept, pairs);
    if (fault)
      fail_msg("%s: %s: %lld x %lld, head %lld, q %lld to %lld, k %lld to %lld, %s walked", words,
               fault, in->seqlen_q, in->seqlen_k, at->head, ends[0], ends[1], ends[2], ends[3],
               walk ? "queries" : "keys");
  }
  sum->empty += kept == 0;
  sum->full += kept == pairs;
  sum->found_empty += class == NONE;
  sum->found_full += class == ALL;
}

static void check_head(const char *words, const code *of, const fa_problem *in, const place *at,
                       tally *sum) {
  enum { TILES = LONGEST / TILE + 1 };
  signed char by_k[TILES][TILES], by_q[TILES][TILES]; /* [fixed tile][walked tile] */
  const long long shift = in->seqlen_k - in->seqlen_q;
  memset(by_k, -1, sizeof by_k);
  memset(by_q, -1, sizeof by_q);
  for (long long q = 0; q < in->seqlen_q; q += TILE)
    of->walk[0](in, at, q + shift, at_most(q + TILE, in->seqlen_q) - 1 + shift, by_k[q / TILE]);
  for (long long k = 0; k < in->seqlen_k; k += TILE)
    of->walk[1](in, at, k, at_most(k + TILE, in->seqlen_k) - 1, by_q[k / TILE]);
  for (long long q = 0; q < in->seqlen_q; q += TILE)
    for (long long k = 0; k < in->seqlen_k; k += TILE) {
      const long long ends[4] = {q + shift, at_most(q + TILE, in->seqlen_q) - 1 + shift, k,
                                 at_most(k + TILE, in->seqlen_k) - 1};
      const int masked[2] = {by_k[q / TILE][k / TILE], by_q[k / TILE][q / TILE]};
      check_tile(words, of, in, at, ends, masked, sum);
    }
}

static tally check_words(const char *words, const code *of) {
  static const int lengths[][2] = {{16, 16}, {50, 50}, {33, 130}, {130, 33}, {1, 70}, {70, 1}};
  static int values[PARAMS_MAX][VALUES];
  fa_plan_param params[PARAMS_MAX] = {{0}};
  tally sum = {0};
  for (size_t i = 0; i < 4 * COUNT_OF(lengths); ++i) {
    const int *length = lengths[i % COUNT_OF(lengths)];
    fa_problem in = {.batch = BATCH,
                     .heads_q = HEADS,
                     .heads_kv = HEADS,
                     .seqlen_q = length[0],
                     .seqlen_k = length[1],
                     .params = params};
    draw_params(params, of, &in, values);
    place at = {.batch = i % BATCH, .head = i / 2 % HEADS};
    check_head(words, of, &in, &at, &sum);
  }
  return sum;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void check_named(const char *words) {
  code of;
  if (!compile(&of, words)) return;
  tally sum = check_words(words, &of);
  print_message("%s: %ld of %ld empty tiles and %ld of %ld full ones are seen from their ranges\n",
                words + 16, sum.found_empty, sum.empty, sum.found_full, sum.full);
  jit_free(of.code);
}

static void no_variant_leaves_out_a_pair_or_forgets_a_mask(void **state) {
  bundle_names names;
  char words[FA_NAME_MAX];
  (void)state;
  expect_ok(bundle_variants(&names, folder.path));
  for (size_t i = 0; i < names.count; ++i) {
    snprintf(words, sizeof words, "fwd cpu f32 d64 %s", names.names[i]);
    check_named(words);
    if (!strcmp(names.names[i], "causal")) continue;
    snprintf(words, sizeof words, "fwd cpu f32 d64 causal %s", names.names[i]);
    check_named(words);
  }
  bundle_names_free(&names);
}

/* Masks of one's own, with what the shipped ones do not use; the words are those of overlay files. */
static void masks_of_the_tests_too(void **state) {
  static const char *const files[] = {"patchwork", "ahead", "behind"};
  char path[512], name[64], words[FA_NAME_MAX];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(files); ++i) {
    snprintf(path, sizeof path, "%s/tests/numeric/overlay/variants/%s.lua", FAGEN_SOURCE_DIR,
             files[i]);
    snprintf(name, sizeof name, "variants/%s.lua", files[i]);
    char *text = read_whole_file(path);
    overlay_write(&folder, name, text);
    free(text);
    snprintf(words, sizeof words, "fwd cpu f32 d64 %s", files[i]);
    check_named(words);
    snprintf(words, sizeof words, "fwd cpu f32 d64 causal window %s", files[i]);
    check_named(words);
  }
}

/* These have nothing that ranges could not see: every empty and every full tile is found. */
static void simple_masks_miss_nothing(void **state) {
  static const char *const words[] = {"fwd cpu f32 d64 causal", "fwd cpu f32 d64 window",
                                      "fwd cpu f32 d64 causal window"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    code of;
    assert_true(compile(&of, words[i]));
    tally sum = check_words(words[i], &of);
    assert_true(sum.empty > 20 && sum.full > 20);
    assert_int_equal(sum.found_empty, sum.empty);
    assert_int_equal(sum.found_full, sum.full);
    jit_free(of.code);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_variant_leaves_out_a_pair_or_forgets_a_mask),
      cmocka_unit_test(masks_of_the_tests_too),
      cmocka_unit_test(simple_masks_miss_nothing),
  };
  return cmocka_run_group_tests(tests, begin, rendering_end);
}
