/* test_mask_runs.c: the runs of tiles that kernels visit under a mask, in both orders of the loops,
   against all pairs one by one. The walks are emitted from an overlay template and compiled, so
   that the text of the bounds is what is tested. */
#include "gen/error.h"
#include "support/expect.h"

#include "rendering.h"
#include "runtime/jit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A walk for each order, tile size and way to treat keys past the end; and the predicates. */
static const char template_text[] =
    "% local mask = require 'mask'\n"
    "typedef void visitor(void *to, long long tile, int masked);\n"
    "static inline long long min(long long a, long long b) { return a < b ? a : b; }\n"
    "static inline long long max(long long a, long long b) { return a > b ? a : b; }\n"
    "% for walked, fixed in ('kq qk'):gmatch '(%a)(%a)' do\n"
    "%   for _, size in ipairs { 1, 3, 16, 64 } do\n"
    "%     for _, ends in ipairs { 'clipped', 'whole' } do\n"
    "void walk_${walked}_${size}_${ends}(long long length, long long shift, long long first,\n"
    "    long long last, int none_past_end, visitor *visit, void *to) {\n"
    "  const long long tiles = (length + ${size - 1}) / ${size};\n"
    "%       local whole = ends == 'whole'\n"
    "%       local walk = mask.runs { walked = walked, fixed = fixed, first = 'first',\n"
    "%         last = 'last', tile = size, tiles = 'tiles', length = 'length',\n"
    "%         shift = walked == 'q' and 'shift' or nil, integer = 'long long',\n"
    "%         cut = whole and walked == 'k', inside = whole and walked == 'q'\n"
    "%         and 'none_past_end' or nil }\n"
    "  ${walk.setup}\n"
    "%       for _, run in ipairs(walk.runs) do\n"
    "  for (long long tile = ${run.from}; tile < ${run.to}; ++tile)\n"
    "    visit(to, tile, ${run.masked and 1 or 0});\n"
    "%       end\n"
    "}\n"
    "int rising_${walked}_${size}_${ends}(void) { return ${walk.rising and 1 or 0}; }\n"
    "%     end\n"
    "%   end\n"
    "% end\n"
    "int keep(long long q, long long k) {\n"
    "  return ${mask.predicate { q = 'q', k = 'k' }};\n"
    "}\n"
    "int keep_inside(long long q, long long k, long long seqlen_k) {\n"
    "  return ${mask.predicate { q = 'q', k = 'k', seqlen_k = 'seqlen_k' }};\n"
    "}\n";

enum { WALK_K, WALK_Q, WALKS };
enum { CLIPPED, WHOLE, ENDS }; /* whether tiles end with the sequence, or are whole in any case */
static const int tile_sizes[] = {1, 3, 16, 64};
static const int fixed_sizes[] = {1, 5, 64};
enum { SIZES = COUNT_OF(tile_sizes), LONGEST = 200, LARGEST_TILE = 64 };

typedef void (*walk_function)(long long length, long long shift, long long first, long long last,
                              int none_past_end, void (*visit)(void *, long long, int), void *to);

typedef struct walks {
  jit *code;
  walk_function walk[WALKS][SIZES][ENDS];
  int (*rising[WALKS][SIZES][ENDS])(void); /* whether the walk's ends are said never to fall */
  int (*keep)(long long q, long long k);
  int (*keep_inside)(long long q, long long k, long long seqlen_k);
} walks;

static int begin(void **state) {
  const int failed = rendering_begin(state);
  overlay_write(&folder, rendering_file, template_text);
  return failed;
}

/* words name the variants; `lua` is the keep expression of the variant `m`. 0: it was refused, since it
   keeps nothing. */
static int compile_walks(walks *out, const char *words, const char *lua) {
  char text[1024], symbol[32];
  render_result rendered;
  snprintf(text, sizeof text, "return variant { doc = 'x', keep = function(at) return %s end }\n",
           lua);
  overlay_write(&folder, "variants/m.lua", text);
  fa_status status = render_words(&rendered, words);
  if (status && strstr(fa_error_message(), "false for every pair")) return 0;
  if (status) fail_msg("%s: %s", lua, fa_error_message());
  const jit_unit unit = {"walks.c", &rendered.kernel};
  status = jit_compile(&out->code, &unit, 1);
  if (status) fail_msg("%s: %s", lua, fa_error_message());
  for (int i = 0; i < WALKS * SIZES * ENDS; ++i) {
    int walk = i / SIZES / ENDS, size = i / ENDS % SIZES, ends = i % ENDS;
    snprintf(symbol, sizeof symbol, "walk_%c_%d_%s", "kq"[walk], tile_sizes[size],
             ends == WHOLE ? "whole" : "clipped");
    out->walk[walk][size][ends] = (walk_function)jit_symbol(out->code, symbol);
    assert_non_null(out->walk[walk][size][ends]);
    snprintf(symbol, sizeof symbol, "rising_%c_%d_%s", "kq"[walk], tile_sizes[size],
             ends == WHOLE ? "whole" : "clipped");
    out->rising[walk][size][ends] = (int (*)(void))jit_symbol(out->code, symbol);
    assert_non_null(out->rising[walk][size][ends]);
  }
  out->keep = (int (*)(long long, long long))jit_symbol(out->code, "keep");
  out->keep_inside = (int (*)(long long, long long, long long))jit_symbol(out->code, "keep_inside");
  assert_non_null(out->keep);
  assert_non_null(out->keep_inside);
  jit_seal(out->code);
  render_free(&rendered);
  return 1;
}

/* ---- All pairs ------------------------------------------------------------------------------ */

typedef int (*truth_function)(const void *with, long long q, long long k);

/* Prefix sums of the kept pairs; rows and columns go one tile past the lengths, so that a tile
   that the end cuts can also be judged as a whole. */
static int kept_below[LONGEST + LARGEST_TILE + 1][LONGEST + LARGEST_TILE + 1];

static void count_pairs(truth_function truth, const void *with, int seqlen_q, int seqlen_k) {
  for (int i = 0; i < seqlen_q + LARGEST_TILE; ++i)
    for (int j = 0; j < seqlen_k + LARGEST_TILE; ++j)
      kept_below[i + 1][j + 1] = kept_below[i][j + 1] + kept_below[i + 1][j] - kept_below[i][j] +
                                 truth(with, i + seqlen_k - seqlen_q, j);
}

/* How many pairs of rows i0..i1 - 1 and keys j0..j1 - 1 are kept. */
static int kept_in(int i0, int i1, int j0, int j1) {
  return kept_below[i1][j1] - kept_below[i0][j1] - kept_below[i1][j0] + kept_below[i0][j0];
}

/* The same by order: the range on the fixed axis, then that on the walked one. */
static int kept_across(int walk, int fixed0, int fixed1, int walked0, int walked1) {
  return walk == WALK_K ? kept_in(fixed0, fixed1, walked0, walked1)
                        : kept_in(walked0, walked1, fixed0, fixed1);
}

/* ---- One mask ------------------------------------------------------------------------------- */

typedef struct mask_case {
  const char *words, *lua;
  truth_function truth;
  const void *with;
  int exact; /* 1 << WALK_K, 1 << WALK_Q: where the bounds must miss nothing */
} mask_case;

enum { EXACT_K = 1 << WALK_K, EXACT_Q = 1 << WALK_Q, EXACT = EXACT_K | EXACT_Q, LOOSE = 0 };

typedef struct visits {
  long long last;
  int out_of_order;
  signed char masked[LONGEST + 1]; /* by tile; -1 = not visited */
} visits;

static void note_visit(void *to, long long tile, int masked) {
  visits *v = to;
  if (tile <= v->last || tile < 0 || tile > LONGEST)
    v->out_of_order = 1;
  else
    v->masked[tile] = (signed char)masked;
  v->last = tile;
}

static int at_most(int a, int b) {
  return a < b ? a : b;
}

/* What is wrong with the way one tile was treated; NULL when nothing is. may_be_full: whether no
   key of it is past the end, where tiles are whole. */
static const char *fault_of(int masked, int kept, int pairs, int kept_if_whole, int may_be_full,
                            int exact) {
  if (masked < 0 && kept) return "a kept pair is left out";
  if (masked == 0 && kept < pairs) return "a masked pair is in a full tile";
  if (masked == 0 && !may_be_full) return "keys past the end are in a full tile";
  if (exact && masked >= 0 && !kept_if_whole) return "an empty tile is visited";
  if (exact && masked > 0 && kept == pairs && may_be_full) return "a full tile is masked";
  return NULL;
}

/* One walk: keys or queries in tiles of `size`, for the fixed indices fixed0..fixed1 - 1 of a tile
   of fixed_size. */
typedef struct trip {
  int walk, size, ends, fixed0, fixed1, fixed_size, seqlen_q, seqlen_k;
} trip;

/* What one trip after another has visited, where ends are said never to fall. */
typedef struct trail {
  int first, last; /* tiles of the last trip that visited any */
  int skipped;     /* whether one since then visited none */
} trail;

static void check_rising(const mask_case *m, const trip *t, const visits *seen, trail *before) {
  int first = 0, last = (int)seen->last;
  while (first <= last && seen->masked[first] < 0) ++first;
  if (last < 0) {
    before->skipped = 1;
    return;
  }
  if (first < before->first || last < before->last || (before->skipped && first <= before->last))
    fail_msg("%s: tiles %d to %d are visited by %d to %d, %d to %d%s before: the ends are said "
             "never to fall",
             m->lua, first, last, t->fixed0, t->fixed1 - 1, before->first, before->last,
             before->skipped ? " and none" : "");
  *before = (trail){first, last, 0};
}

static void check_trip(const mask_case *m, const walks *code, const trip *t, trail *before) {
  const int tile = tile_sizes[t->size], shift = t->seqlen_k - t->seqlen_q;
  const int length = t->walk == WALK_K ? t->seqlen_k : t->seqlen_q;
  const int offset = t->walk == WALK_K ? shift : 0; /* of the fixed axis' positions */
  const int keys_inside = t->walk == WALK_K || t->fixed1 - t->fixed0 == t->fixed_size;
  visits seen = {.last = -1};
  memset(seen.masked, -1, sizeof seen.masked);
  const int past = t->ends == WHOLE && t->walk == WALK_Q ? t->fixed0 + t->fixed_size : t->fixed1;
  code->walk[t->walk][t->size][t->ends](length, shift, t->fixed0 + offset, past - 1 + offset,
                                        keys_inside, note_visit, &seen);
  const char *fault = seen.out_of_order || seen.last * tile >= length + (seen.last < 0)
                          ? "tiles out of order"
                          : NULL;
  int index = 0;
  for (; !fault && index * tile < length; ++index) {
    int from = index * tile, to = at_most(from + tile, length);
    int kept = kept_across(t->walk, t->fixed0, t->fixed1, from, to);
    int whole = kept_across(t->walk, t->fixed0, past, from, from + tile);
    int inside = keys_inside && (t->walk == WALK_Q || to - from == tile);
    fault = fault_of(seen.masked[index], kept, (t->fixed1 - t->fixed0) * (to - from), whole,
                     t->ends == CLIPPED || inside, m->exact >> t->walk & 1);
  }
  if (fault)
    fail_msg("%s: %s: %d queries, %d keys, %s walked by %d, %s %d to %d, ends %s: tile %d", m->lua,
             fault, t->seqlen_q, t->seqlen_k, t->walk == WALK_K ? "keys" : "queries", tile,
             t->walk == WALK_K ? "queries" : "keys", t->fixed0, t->fixed1 - 1,
             t->ends == WHOLE ? "whole" : "clipped", index - 1);
  if (code->rising[t->walk][t->size][t->ends]()) check_rising(m, t, &seen, before);
}

static void check_predicates(const mask_case *m, const walks *code, int seqlen_q, int seqlen_k) {
  for (int i = 0; i < seqlen_q; ++i)
    for (int j = 0; j < seqlen_k + LARGEST_TILE; ++j) {
      int q = i + seqlen_k - seqlen_q, truth = kept_in(i, i + 1, j, j + 1);
      if (!code->keep(q, j) != !truth ||
          !code->keep_inside(q, j, seqlen_k) != !(truth && j < seqlen_k))
        fail_msg("%s: the predicate is wrong at q %d, k %d of %d", m->lua, q, j, seqlen_k);
    }
}

static void check_sizes(const mask_case *m, const walks *code, int seqlen_q, int seqlen_k) {
  count_pairs(m->truth, m->with, seqlen_q, seqlen_k);
  check_predicates(m, code, seqlen_q, seqlen_k);
  for (int i = 0; i < WALKS * SIZES * ENDS; ++i)
    for (size_t f = 0; f < COUNT_OF(fixed_sizes); ++f) {
      trip t = {i / SIZES / ENDS, i / ENDS % SIZES, i % ENDS, 0, 0,
                fixed_sizes[f],   seqlen_q,         seqlen_k};
      const int fixed_length = t.walk == WALK_K ? seqlen_q : seqlen_k;
      trail before = {-1, -1, 0};
      for (; t.fixed0 < fixed_length; t.fixed0 += t.fixed_size) {
        t.fixed1 = at_most(t.fixed0 + t.fixed_size, fixed_length);
        check_trip(m, code, &t, &before);
      }
    }
}

static const int lengths[][2] = {{0, 0},    {0, 5},     {5, 0},    {1, 1},   {1, 70},
                                 {70, 1},   {13, 8},    {8, 13},   {64, 64}, {65, 129},
                                 {129, 65}, {130, 130}, {63, 200}, {200, 63}};

/* A mask that is refused has no pair at any length. */
static void check_refusal(const mask_case *m) {
  for (size_t i = 0; i < COUNT_OF(lengths); ++i) {
    const int seqlen_q = lengths[i][0], seqlen_k = lengths[i][1];
    count_pairs(m->truth, m->with, seqlen_q, seqlen_k);
    if (kept_in(0, seqlen_q, 0, seqlen_k)) fail_msg("%s: refused, and keeps pairs", m->lua);
  }
}

/* Whether the mask was not refused. */
static int check_mask(const mask_case *m, int every) {
  walks code;
  if (!compile_walks(&code, m->words, m->lua)) {
    check_refusal(m);
    return 0;
  }
  for (size_t i = 0; i < COUNT_OF(lengths); i += (size_t)every)
    check_sizes(m, &code, lengths[i][0], lengths[i][1]);
  jit_free(code.code);
  return 1;
}

/* ---- Masks by name -------------------------------------------------------------------------- */

/* X(name, lua, the same in C, where it must be exact) */
#define MASKS(X)                                                                             \
  X(le, "le(at.k, at.q)", k <= q, EXACT)                                                     \
  X(lt, "lt(at.k, at.q)", k < q, EXACT)                                                      \
  X(ge, "ge(at.k, at.q)", k >= q, EXACT)                                                     \
  X(gt, "gt(at.k, at.q)", k > q, EXACT)                                                      \
  X(swapped, "ge(at.q, at.k)", q >= k, EXACT)                                                \
  X(ahead, "le(at.k - at.q, 5)", k - q <= 5, EXACT)                                          \
  X(behind, "ge(at.k - at.q, -64)", k - q >= -64, EXACT)                                     \
  X(behind_swapped, "le(at.q - at.k, 5)", q - k <= 5, EXACT)                                 \
  X(sum_inside, "gt(at.q, at.k + 3)", q > k + 3, EXACT)                                      \
  X(constant_left, "le(0, at.k - at.q + 7)", 0 <= k - q + 7, EXACT)                          \
  X(negated, "le(-(-at.k), at.q)", k <= q, EXACT)                                            \
  X(both_negated, "lt(-at.k - at.q, -10)", -k - q < -10, EXACT)                              \
  X(antidiagonal_le, "le(at.k + at.q, 40)", k + q <= 40, EXACT)                              \
  X(antidiagonal_ge, "ge(at.k + at.q, 40)", k + q >= 40, EXACT)                              \
  X(cancelled, "le(at.k + at.q - at.q - at.q, 2)", k - q <= 2, EXACT)                        \
  X(diagonal, "eq(at.k, at.q)", k == q, EXACT)                                               \
  X(off_diagonal, "eq(at.k - at.q, -3)", k - q == -3, EXACT)                                 \
  X(not_diagonal, "ne(at.k, at.q)", k != q, LOOSE)                                           \
  X(not_off_diagonal, "ne(at.k - at.q, 2)", k - q != 2, LOOSE)                               \
  X(first_keys, "le(at.k, 20)", k <= 20, EXACT_K)                                            \
  X(last_keys, "gt(at.k, 20)", k > 20, EXACT_K)                                              \
  X(one_key, "eq(at.k, 7)", k == 7, EXACT_K)                                                 \
  X(no_query, "lt(at.q, -1000)", q < -1000, EXACT_Q)                                         \
  X(first_queries, "le(at.q, 20)", q <= 20, EXACT_Q)                                         \
  X(early_queries, "lt(at.q, -5)", q < -5, EXACT_Q)                                          \
  X(late_queries, "ge(at.q, 3)", q >= 3, EXACT_Q)                                            \
  X(always, "le(3, 5)", 1, LOOSE)                                                            \
  X(band, "le(at.k - at.q, 5) & ge(at.k - at.q, -3)", k - q <= 5 && k - q >= -3, EXACT)      \
  X(window, "le(at.k, at.q) & gt(at.k, at.q - 16)", k <= q && k > q - 16, EXACT)             \
  X(empty_wedge, "ge(at.k, at.q) & lt(at.k, 5) & ge(at.q, 5)", 0, LOOSE)                     \
  X(outside_band, "le(at.k - at.q, -10) | ge(at.k - at.q, 10)", k - q <= -10 || k - q >= 10, \
    LOOSE)                                                                                   \
  X(overlapping_or, "le(at.k - at.q, 10) | ge(at.k - at.q, -10)", 1, LOOSE)                  \
  X(prefix, "le(at.k, at.q) | lt(at.k, 8)", k <= q || k < 8, EXACT_K)                        \
  X(prefix_first, "lt(at.k, 8) | le(at.k, at.q)", k <= q || k < 8, EXACT_K)                  \
  X(sink_window, "lt(at.k, 4) | (le(at.k, at.q) & ge(at.k, at.q - 20))",                     \
    k < 4 || (k <= q && k >= q - 20), LOOSE)                                                 \
  X(capped, "le(at.k, at.q) & le(at.k, 50)", k <= q && k <= 50, LOOSE)                       \
  X(two_low, "ge(at.k, at.q - 9) & ge(at.k, 5)", k >= q - 9 && k >= 5, LOOSE)                \
  X(mixed_or, "(le(at.k, at.q) | ge(at.k - at.q, 30)) & ge(at.k, 4)",                        \
    (k <= q || k - q >= 30) && k >= 4, LOOSE)                                                \
  X(two_diagonals, "eq(at.k, at.q) | eq(at.k, 0)", k == q || k == 0, LOOSE)                  \
  X(strict, "ne(at.k, at.q) & le(at.k, at.q)", k < q, LOOSE)                                 \
  X(two_sides, "le(at.k + at.q, 60) & le(at.k - at.q, 5)", k + q <= 60 && k - q <= 5, LOOSE) \
  X(steep, "le(2 * at.k, at.q)", 2 * k <= q, LOOSE)                                          \
  X(steep_sum, "le(at.k + at.k, at.q)", 2 * k <= q, LOOSE)                                   \
  X(flat, "le(at.k - at.q - at.q, 0)", k - 2 * q <= 0, LOOSE)                                \
  X(product, "le(at.k * at.q, 100)", k *q <= 100, LOOSE)                                     \
  X(fraction, "le(at.k, 5.5)", k <= 5, LOOSE)                                                \
  X(far_above, "le(at.k - at.q, 9223372036854775000)", 1, LOOSE)                             \
  X(far_below, "ge(at.k, -9223372036854775807)", 1, LOOSE)                                   \
  X(too_far, "lt(at.q, 9223372036854775807)", 1, LOOSE)                                      \
  X(beyond, "gt(at.k, 9223372036854775807)", 0, LOOSE)

#define TRUTH(name, lua, expression, exact)                             \
  static int truth_##name(const void *with, long long q, long long k) { \
    (void)with, (void)q, (void)k;                                       \
    return expression;                                                  \
  }
MASKS(TRUTH)

static void no_kept_pair_is_left_out_and_full_tiles_are_full(void **state) {
#define CASE(name, lua, expression, exact) {"fwd cpu f32 d64 m", lua, truth_##name, NULL, exact},
  static const mask_case cases[] = {MASKS(CASE)};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i)
    if (!check_mask(&cases[i], 1)) fail_msg("%s: %s", cases[i].lua, fa_error_message());
}

static int truth_causal_window(const void *with, long long q, long long k) {
  (void)with;
  return k <= q && k > q - 16;
}

static void masks_of_several_variants_are_all_kept(void **state) {
  const mask_case both = {"fwd cpu f32 d64 causal m", "gt(at.k, at.q - 16)", truth_causal_window,
                          NULL, EXACT};
  (void)state;
  assert_true(check_mask(&both, 1));
}

/* ---- Random masks --------------------------------------------------------------------------- */

typedef struct tree {
  enum { LE, LT, GE, GT, EQ, NE, AND, OR } op;
  int q, k, c; /* a comparison of q * at.q + k * at.k with c */
  int left, right;
} tree;

typedef struct random_mask {
  tree nodes[16];
  int count;
} random_mask;

static unsigned choose(unsigned below) {
  static uint64_t state = 99;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

static int grow(random_mask *m, int depth) {
  int index = m->count++;
  tree node = {.op = LE};
  if (depth > 0 && choose(3)) {
    node.op = choose(2) ? AND : OR;
    node.left = grow(m, depth - 1);
    node.right = grow(m, depth - 1);
  } else {
    node.op = choose(6);
    node.q = (int)choose(3) - 1;
    node.k = node.q ? (int)choose(3) - 1 : choose(2) ? 1 : -1; /* not false for all: refused */
    node.c = (int)choose(80) - 40;
  }
  m->nodes[index] = node;
  return index;
}

static void write_lua(char *out, size_t bytes, const random_mask *m, int index) {
  static const char *const words[] = {"le", "lt", "ge", "gt", "eq", "ne"};
  static const char *const of_q[] = {"-at.q", "0", "at.q"}, *const of_k[] = {" - at.k", " + 0",
                                                                             " + at.k"};
  const tree *n = &m->nodes[index];
  char left[512], right[512];
  if (n->op == AND || n->op == OR) {
    write_lua(left, sizeof left, m, n->left);
    write_lua(right, sizeof right, m, n->right);
    if ((size_t)snprintf(out, bytes, "(%s %c %s)", left, n->op == AND ? '&' : '|', right) >= bytes)
      fail_msg("a mask longer than %zu", bytes);
  } else {
    snprintf(out, bytes, "%s(%s%s, %d)", words[n->op], of_q[n->q + 1], of_k[n->k + 1], n->c);
  }
}

static int truth_of(const random_mask *m, int index, long long q, long long k) {
  const tree *n = &m->nodes[index];
  long long x = n->q * q + n->k * k;
  switch (n->op) {
  case AND:
    return truth_of(m, n->left, q, k) && truth_of(m, n->right, q, k);
  case OR:
    return truth_of(m, n->left, q, k) || truth_of(m, n->right, q, k);
  case LE:
    return x <= n->c;
  case LT:
    return x < n->c;
  case GE:
    return x >= n->c;
  case GT:
    return x > n->c;
  case EQ:
    return x == n->c;
  default:
    return x != n->c;
  }
}

static int truth_random(const void *with, long long q, long long k) {
  return truth_of(with, 0, q, k);
}

static void random_masks_too(void **state) {
  int refused = 0;
  (void)state;
  for (int i = 0; i < 400; ++i) {
    random_mask m = {.count = 0};
    char lua[512];
    grow(&m, 2);
    write_lua(lua, sizeof lua, &m, 0);
    const mask_case c = {"fwd cpu f32 d64 m", lua, truth_random, &m, LOOSE};
    refused += !check_mask(&c, 3);
  }
  printf("%d of 400 masks keep nothing by their expression and are refused\n", refused);
  assert_in_range(refused, 1, 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_kept_pair_is_left_out_and_full_tiles_are_full),
      cmocka_unit_test(masks_of_several_variants_are_all_kept),
      cmocka_unit_test(random_masks_too),
  };
  return cmocka_run_group_tests(tests, begin, rendering_end);
}
