/* test_counting.c: 10,000 small random problems under every mask, alone and in pairs, with an
   oracle that counts. With q = 0 and a score that keeps 0, every visible pair weighs the same: O
   times the number of visible keys counts them by class, exp(LSE) is that number, and with a dO of
   it dV counts the rows that see a key. All are whole numbers and must be right after rounding: a
   key too many, one too few or one twice is seen, whatever its size. */
#include "support.h"
#include "variant_list.h"

#include "../support/overlay.h"
#include "gen/bundle.h"
#include "gen/render.h"
#include "gen/spec.h"
#include "runtime/cli/drawn.h"
#include "runtime/cli/oracle.h"
#include "runtime/cli/random.h"
#include "runtime/cli/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  CLASSES = 61, /* of keys and rows: index modulo a prime that shares nothing with tiles */
  DIM = 64,
  LONGEST = 250, /* counts up to here are whole numbers in bf16 */
  HEADS = 4,
  BATCHES = 2,
  CASES_MAX = 2048,
  TILINGS = 2
};

/* Variants together, and what is known of them. */
typedef struct counted_case {
  char words[96];
  char *keep, *score; /* postfix */
  param_list params;
  const fa_kernel *forward[TILINGS], *backward[TILINGS];
} counted_case;

static counted_case cases[CASES_MAX];
static size_t num_cases;

/* The target's own tiles, and on cpu small ones, so that small problems have tiles of all classes.
   */
static fa_context *contexts[TILINGS];
static overlay small_tiles;
static int num_tilings;

/* ---- Small tiles ------------------------------------------------------------------------- */

static void copy_to_small_tiles(const char *name, const char *from, const char *to) {
  char *text, *path;
  size_t bytes;
  expect_ok(bundle_read(&text, &bytes, &path, support_overlay(), name));
  char *place = from ? strstr(text, from) : NULL;
  if (from && !place) fail_msg("'%s' is not in %s", from, name);
  char *changed = malloc(bytes + 64);
  assert_non_null(changed);
  if (place)
    sprintf(changed, "%.*s%s%s", (int)(place - text), text, to, place + strlen(from));
  else
    strcpy(changed, text);
  overlay_write(&small_tiles, name, changed);
  free(changed);
  free(text);
  free(path);
}

static void open_small_tiles(const listed_variant *variants, size_t count) {
  fa_options options = FA_OPTIONS_INIT;
  char name[64];
  overlay_create(&small_tiles);
  copy_to_small_tiles("cpu/tiles.lua", "queries, keys = 64, 64", "queries, keys = 8, 16");
  for (size_t i = 0; i < count; ++i) {
    snprintf(name, sizeof name, "variants/%.31s.lua", variants[i].name);
    copy_to_small_tiles(name, NULL, NULL);
  }
  options.backend = FA_CPU;
  options.threads = 2;
  options.template_dir = small_tiles.path;
  expect_ok(fa_context_create(&contexts[1], &options));
  num_tilings = 2;
}

/* ---- Cases ------------------------------------------------------------------------------- */

static fa_spec spec_of(const counted_case *c, const char *pass) {
  char words[FA_NAME_MAX], on_the_target[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT;
  snprintf(words, sizeof words, "%s cpu %s d%d gqa2 %s", pass, on_gpu() ? "bf16" : "f32", DIM,
           c->words);
  target_words(on_the_target, words);
  expect_ok(fa_spec_parse(&spec, on_the_target));
  return spec;
}

static oracle *oracle_of(const counted_case *c, const cli_sizes *sizes, const drawn_params *drawn) {
  oracle_param params[PARAMS_MAX];
  oracle_words words = {c->keep, c->score, ""};
  oracle *out = NULL;
  drawn_for_oracle(params, drawn);
  expect_ok(oracle_compile(&out, &words, sizes, params, (size_t)drawn->count));
  return out;
}

/* Whether the score of 0 is 0, by some of its pairs. */
static int keeps_zero(const counted_case *c) {
  const cli_sizes sizes = {.batch = 2,
                           .heads_q = HEADS,
                           .heads_kv = HEADS / 2,
                           .seqlen_q = 9,
                           .seqlen_k = 12,
                           .seed = 3};
  drawn_params drawn;
  double slope;
  int kept = 1;
  expect_ok(drawn_make(&drawn, &c->params, &sizes));
  oracle *o = oracle_of(c, &sizes, &drawn);
  for (cli_pair pair = {1, 1, 0, 0}; pair.row < sizes.seqlen_q; ++pair.row)
    for (pair.key = 0; pair.key < sizes.seqlen_k; ++pair.key)
      kept &= oracle_score(o, &pair, 0, &slope) == 0;
  oracle_free(o);
  drawn_free(&drawn);
  return kept;
}

/* Adds the case unless its scores are none that can be counted with. Gives whether it did. */
static int add_case(const char *words) {
  counted_case *c = &cases[num_cases];
  render_result rendered;
  fa_spec canonical = FA_SPEC_INIT;
  assert_true(num_cases < CASES_MAX);
  snprintf(c->words, sizeof c->words, "%s", words);
  const fa_spec spec = spec_of(c, "fwd");
  expect_ok(spec_canonicalise(&canonical, &spec));
  expect_ok(render_spec(&rendered, &canonical, support_overlay()));
  c->keep = strdup(rendered.keep);
  c->score = strdup(rendered.score);
  c->params = rendered.params;
  render_free(&rendered);
  if (keeps_zero(c)) {
    ++num_cases;
    return 1;
  }
  free(c->keep);
  free(c->score);
  return 0;
}

static int begin(void **state) {
  static listed_variant variants[VARIANTS_LISTED_MAX];
  static listed_variant taken[VARIANTS_LISTED_MAX];
  size_t count = variant_list(variants), num_taken = 0;
  char words[96];
  int code = support_begin(state);
  if (!on_gpu()) alarm(280); /* hundreds of kernels are built */
  contexts[0] = support_context();
  num_tilings = 1;
  if (!on_gpu()) open_small_tiles(variants, count);
  add_case("causal");
  for (size_t i = 0; i < count; ++i)
    if (!variants[i].sinks && add_case(variants[i].name)) taken[num_taken++] = variants[i];
  for (size_t i = 0; i < num_taken; ++i) {
    snprintf(words, sizeof words, "causal %.31s", taken[i].name);
    add_case(words);
    for (size_t j = i + 1; j < num_taken; ++j) {
      if (on_gpu() && (i + j) % 7) continue; /* its compiler takes seconds */
      snprintf(words, sizeof words, "%.31s %.31s", taken[i].name, taken[j].name);
      add_case(words);
    }
  }
  return code;
}

static int end(void **state) {
  for (size_t i = 0; i < num_cases; ++i) {
    free(cases[i].keep);
    free(cases[i].score);
  }
  if (num_tilings == 2) {
    fa_context_destroy(contexts[1]);
    overlay_remove(&small_tiles);
  }
  return support_end(state);
}

/* ---- One problem ------------------------------------------------------------------------- */

/* What is handed to the kernels and comes back, on the host, dense. */
typedef struct problem {
  const counted_case *of;
  int tiling;
  cli_sizes sizes;
  drawn_params drawn;
  unsigned char *visible; /* batch x heads_q x seqlen_q x seqlen_k */
  int64_t *counts;        /* of visible keys: batch x heads_q x seqlen_q */
} problem;

static int64_t row_of(const problem *p, int64_t batch, int64_t head, int64_t row) {
  return (batch * p->sizes.heads_q + head) * p->sizes.seqlen_q + row;
}

static void describe(char *text, size_t bytes, const problem *p) {
  snprintf(text, bytes, "%s, %s tiles, batch %d, heads %d, seqlen %d x %d, seed %d", p->of->words,
           p->tiling ? "small" : "own", (int)p->sizes.batch, (int)p->sizes.heads_q,
           (int)p->sizes.seqlen_q, (int)p->sizes.seqlen_k, (int)p->sizes.seed);
  for (int slot = 0; slot < p->drawn.count; ++slot) {
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, ", ");
    used = strlen(text);
    drawn_print(text + used, bytes - used, &p->drawn.items[slot]);
  }
}

static void fail_at(const problem *p, const char *what, const cli_pair *at, double got,
                    double wanted) {
  char text[1024];
  describe(text, sizeof text, p);
  fail_msg("%s: %s at batch %d, head %d, row or key %d, class %d: got %.6f, wanted %g", text, what,
           (int)at->batch, (int)at->head, (int)at->row, (int)at->key, got, wanted);
}

/* On a GPU: the last problem named is the one that hangs, if any does. */
static void tell(const problem *p) {
  char text[1024];
  if (!on_gpu()) return;
  describe(text, sizeof text, p);
  fprintf(stderr, "%s\n", text);
}

static void count_pairs(problem *p) {
  const cli_sizes *n = &p->sizes;
  oracle *o = oracle_of(p->of, n, &p->drawn);
  cli_pair pair;
  int64_t at = 0;
  for (pair.batch = 0; pair.batch < n->batch; ++pair.batch)
    for (pair.head = 0; pair.head < n->heads_q; ++pair.head)
      for (pair.row = 0; pair.row < n->seqlen_q; ++pair.row) {
        int64_t *count = &p->counts[row_of(p, pair.batch, pair.head, pair.row)];
        *count = 0;
        for (pair.key = 0; pair.key < n->seqlen_k; ++pair.key, ++at)
          *count += p->visible[at] = oracle_keep(o, &pair) != 0;
      }
  oracle_free(o);
}

/* Random sizes: mostly of few tiles, some of many. */
static int64_t random_length(int64_t number, int64_t purpose) {
  const int64_t which[4] = {number, purpose, 0, 0}, what[4] = {number, purpose, 1, 0};
  double u = random_uniform(7, 1, which);
  int64_t longest = u < 0.7 ? 40 : u < 0.95 ? 130 : LONGEST;
  return 1 + (int64_t)(random_uniform(7, 1, what) * (double)longest);
}

static int64_t random_below(int64_t number, int64_t purpose, int64_t end) {
  const int64_t at[4] = {number, purpose, 0, 0};
  return (int64_t)(random_uniform(7, 2, at) * (double)end);
}

static void draw_problem(problem *p, int64_t number) {
  p->of = &cases[random_below(number, 0, (int64_t)num_cases)];
  p->tiling = (int)random_below(number, 1, num_tilings);
  p->sizes = (cli_sizes){.batch = 1 + random_below(number, 2, BATCHES), .seed = (uint64_t)number};
  p->sizes.heads_kv = 1 + random_below(number, 3, HEADS / 2);
  p->sizes.heads_q = 2 * p->sizes.heads_kv;
  p->sizes.seqlen_q = random_length(number, 4);
  p->sizes.seqlen_k = random_below(number, 5, 4) ? random_length(number, 6) : p->sizes.seqlen_q;
  expect_ok(drawn_make(&p->drawn, &p->of->params, &p->sizes));
}

/* ---- Tensors on the device --------------------------------------------------------------- */

enum { Q, K, V, O, DOUT, DQ, DK, DV, LSE, WORKSPACE, TENSORS };

/* One piece of memory each, large enough for any problem, and its copy on the host. */
typedef struct memory {
  void *device, *host;
  size_t bytes;
} memory;

static memory tensors[TILINGS][TENSORS], tables[TILINGS][PARAMS_MAX],
    gradients[TILINGS][PARAMS_MAX];

/* At least so many bytes, each of them 0xff: NaN in every type. */
static void *host_memory(int tiling, memory *m, size_t bytes) {
  if (m->bytes < bytes) {
    fa_memory_free(contexts[tiling], m->device);
    free(m->host);
    m->bytes = 2 * bytes + 256;
    m->host = malloc(m->bytes);
    assert_non_null(m->host);
    expect_ok(fa_memory_alloc(&m->device, contexts[tiling], m->bytes));
  }
  if (bytes) memset(m->host, 0xff, bytes);
  return m->host;
}

static void upload(int tiling, const memory *m, size_t bytes) {
  if (bytes) expect_ok(fa_memory_copy(contexts[tiling], m->device, m->host, bytes, NULL));
}

static void download(int tiling, const memory *m, size_t bytes) {
  if (bytes) expect_ok(fa_memory_copy(contexts[tiling], m->host, m->device, bytes, NULL));
}

static void free_memory(int tiling, memory *m) {
  fa_memory_free(contexts[tiling], m->device);
  free(m->host);
  *m = (memory){0};
}

static size_t tensor_bytes(const problem *p, int tensor) {
  const cli_sizes *n = &p->sizes;
  int by_key = tensor == K || tensor == V || tensor == DK || tensor == DV;
  int64_t rows = n->batch * (by_key ? n->seqlen_k * n->heads_kv : n->seqlen_q * n->heads_q);
  return tensor == LSE ? (size_t)rows * 4 : (size_t)rows * DIM * (on_gpu() ? 2 : 4);
}

static void put(const problem *p, int tensor, int64_t index, double value) {
  void *host = tensors[p->tiling][tensor].host;
  if (on_gpu())
    storage_write((char *)host + 2 * index, value, FA_BF16);
  else
    ((float *)host)[index] = (float)value;
}

static double get(const problem *p, int tensor, int64_t index) {
  const void *host = tensors[p->tiling][tensor].host;
  return on_gpu() ? storage_read((const char *)host + 2 * index, FA_BF16)
                  : (double)((const float *)host)[index];
}

/* Element 0 of a query's or key's row: batch x seqlen x heads x dim. */
static int64_t query_at(const problem *p, int64_t batch, int64_t head, int64_t row) {
  return ((batch * p->sizes.seqlen_q + row) * p->sizes.heads_q + head) * DIM;
}

static int64_t key_at(const problem *p, int64_t batch, int64_t head_kv, int64_t key) {
  return ((batch * p->sizes.seqlen_k + key) * p->sizes.heads_kv + head_kv) * DIM;
}

/* q = 0; k is anything finite; v has a 1 in the column of the key's class, and its index in the
   next column where it is f32, which holds what is summed. */
static void fill_inputs(const problem *p) {
  const cli_sizes *n = &p->sizes;
  for (int tensor = Q; tensor <= LSE; ++tensor)
    host_memory(p->tiling, &tensors[p->tiling][tensor], tensor_bytes(p, tensor));
  memset(tensors[p->tiling][Q].host, 0, tensor_bytes(p, Q));
  memset(tensors[p->tiling][V].host, 0, tensor_bytes(p, V));
  for (int64_t batch = 0; batch < n->batch; ++batch)
    for (int64_t key = 0; key < n->seqlen_k; ++key)
      for (int64_t head = 0; head < n->heads_kv; ++head) {
        int64_t at = key_at(p, batch, head, key);
        for (int64_t c = 0; c < DIM; ++c) put(p, K, at + c, (double)((at + 3 * c) % 5) - 2);
        put(p, V, at + key % CLASSES, 1);
        if (!on_gpu()) put(p, V, at + CLASSES, (double)key);
      }
}

/* dO: the number of keys that the row sees, in the column of the row's class. */
static void fill_dout(const problem *p) {
  const cli_sizes *n = &p->sizes;
  memset(tensors[p->tiling][DOUT].host, 0, tensor_bytes(p, DOUT));
  for (int64_t batch = 0; batch < n->batch; ++batch)
    for (int64_t head = 0; head < n->heads_q; ++head)
      for (int64_t row = 0; row < n->seqlen_q; ++row)
        put(p, DOUT, query_at(p, batch, head, row) + row % CLASSES,
            (double)p->counts[row_of(p, batch, head, row)]);
}

static void set_params(const problem *p, fa_param params[PARAMS_MAX]) {
  for (int slot = 0; slot < p->drawn.count; ++slot) {
    const drawn_param *param = &p->drawn.items[slot];
    int64_t count = view_count(param->shape.extent);
    memory *table = &tables[p->tiling][slot], *gradient = &gradients[p->tiling][slot];
    params[slot] = (fa_param){.name = param->name};
    if (param->declared->grad) {
      host_memory(p->tiling, gradient, 4 * (size_t)count);
      params[slot].grad = gradient->device;
    }
    if (!param_is_table(param->declared)) {
      params[slot].value = param->values[0];
      continue;
    }
    char *host = host_memory(p->tiling, table, 4 * (size_t)count);
    for (int64_t i = 0; i < count; ++i)
      storage_write(host + 4 * i, param->values[i], param->shape.dtype);
    upload(p->tiling, table, 4 * (size_t)count);
    params[slot].data = table->device;
    params[slot].length = count;
  }
}

/* ---- Running ----------------------------------------------------------------------------- */

static fa_tensor tensor_of(const problem *p, int tensor) {
  const cli_sizes *n = &p->sizes;
  int by_key = tensor == K || tensor == V || tensor == DK || tensor == DV;
  void *device = tensors[p->tiling][tensor].device;
  return by_key ? fa_bshd(device, n->seqlen_k, n->heads_kv, DIM)
                : fa_bshd(device, n->seqlen_q, n->heads_q, DIM);
}

static fa_args arguments_of(const problem *p, const fa_param *params) {
  fa_args args = FA_ARGS_INIT;
  args.batch = p->sizes.batch;
  args.heads_q = p->sizes.heads_q;
  args.heads_kv = p->sizes.heads_kv;
  args.seqlen_q = p->sizes.seqlen_q;
  args.seqlen_k = p->sizes.seqlen_k;
  args.q = tensor_of(p, Q);
  args.k = tensor_of(p, K);
  args.v = tensor_of(p, V);
  args.o = tensor_of(p, O);
  args.lse = tensors[p->tiling][LSE].device;
  args.dout = tensor_of(p, DOUT);
  args.dq = tensor_of(p, DQ);
  args.dk = tensor_of(p, DK);
  args.dv = tensor_of(p, DV);
  args.params = params;
  args.num_params = (size_t)p->drawn.count;
  return args;
}

static void launch(const problem *p, const fa_kernel **kept, const char *pass, fa_args *args) {
  fa_spec spec = spec_of(p->of, pass);
  size_t bytes = 0;
  if (!*kept) expect_ok(fa_get_kernel(kept, contexts[p->tiling], &spec));
  expect_ok(fa_workspace_size(&bytes, *kept, args));
  memory *workspace = &tensors[p->tiling][WORKSPACE];
  host_memory(p->tiling, workspace, bytes);
  upload(p->tiling, workspace, bytes);
  args->workspace = workspace->device;
  args->workspace_size = workspace->bytes;
  expect_ok(fa_launch(*kept, args, NULL));
}

static void run_problem(problem *p) {
  counted_case *of = &cases[p->of - cases];
  fa_param params[PARAMS_MAX];
  fill_inputs(p);
  fill_dout(p);
  set_params(p, params);
  for (int tensor = Q; tensor <= LSE; ++tensor)
    upload(p->tiling, &tensors[p->tiling][tensor], tensor_bytes(p, tensor));
  fa_args args = arguments_of(p, params);
  launch(p, &of->forward[p->tiling], "fwd", &args);
  launch(p, &of->backward[p->tiling], "bwd", &args);
  download(p->tiling, &tensors[p->tiling][O], tensor_bytes(p, O));
  download(p->tiling, &tensors[p->tiling][LSE], tensor_bytes(p, LSE));
  download(p->tiling, &tensors[p->tiling][DV], tensor_bytes(p, DV));
}

/* ---- Judging ----------------------------------------------------------------------------- */

static void assert_whole(const problem *p, const char *what, const cli_pair *at, double got,
                         double wanted) {
  if (!(rint(got) == wanted)) fail_at(p, what, at, got, wanted);
}

static void assert_row(const problem *p, int64_t batch, int64_t head, int64_t row) {
  double classes[CLASSES] = {0}, sum = 0;
  const int64_t at = row_of(p, batch, head, row);
  const double count = (double)p->counts[at];
  const unsigned char *visible = p->visible + at * p->sizes.seqlen_k;
  const float *lse = tensors[p->tiling][LSE].host;
  cli_pair where = {batch, head, row, 0};
  for (int64_t key = 0; key < p->sizes.seqlen_k; ++key) {
    classes[key % CLASSES] += visible[key];
    sum += visible[key] ? (double)key : 0;
  }
  assert_whole(p, "exp(LSE)", &where, exp((double)lse[at]), count);
  for (; where.key < CLASSES; ++where.key)
    assert_whole(p, "O times the count", &where,
                 count * get(p, O, query_at(p, batch, head, row) + where.key), classes[where.key]);
  if (!on_gpu())
    assert_whole(p, "the sum of visible indices", &where,
                 count * get(p, O, query_at(p, batch, head, row) + CLASSES), sum);
}

static void assert_key(const problem *p, int64_t batch, int64_t head_kv, int64_t key) {
  double classes[CLASSES] = {0};
  for (int64_t head = 2 * head_kv; head < 2 * head_kv + 2; ++head)
    for (int64_t row = 0; row < p->sizes.seqlen_q; ++row)
      classes[row % CLASSES] += p->visible[row_of(p, batch, head, row) * p->sizes.seqlen_k + key];
  cli_pair where = {batch, head_kv, key, 0};
  for (; where.key < CLASSES; ++where.key)
    assert_whole(p, "dV", &where, get(p, DV, key_at(p, batch, head_kv, key) + where.key),
                 classes[where.key]);
}

static void assert_counts(const problem *p) {
  const cli_sizes *n = &p->sizes;
  for (int64_t batch = 0; batch < n->batch; ++batch) {
    for (int64_t head = 0; head < n->heads_q; ++head)
      for (int64_t row = 0; row < n->seqlen_q; ++row) assert_row(p, batch, head, row);
    for (int64_t head = 0; head < n->heads_kv; ++head)
      for (int64_t key = 0; key < n->seqlen_k; ++key) assert_key(p, batch, head, key);
  }
}

static void every_count_is_right(void **state) {
  const int64_t problems = on_gpu() ? 200 : 10000;
  const size_t rows = (size_t)BATCHES * HEADS * LONGEST;
  problem p = {.visible = malloc(rows * LONGEST), .counts = malloc(rows * sizeof(int64_t))};
  (void)state;
  assert_true(p.visible && p.counts);
  for (int64_t number = 1; number <= problems; ++number) {
    draw_problem(&p, number);
    count_pairs(&p);
    tell(&p);
    run_problem(&p);
    assert_counts(&p);
    drawn_free(&p.drawn);
  }
  print_message("%d problems of %zu cases\n", (int)problems, num_cases);
  for (int tiling = 0; tiling < num_tilings; ++tiling) {
    for (int i = 0; i < TENSORS; ++i) free_memory(tiling, &tensors[tiling][i]);
    for (int i = 0; i < PARAMS_MAX; ++i) {
      free_memory(tiling, &tables[tiling][i]);
      free_memory(tiling, &gradients[tiling][i]);
    }
  }
  free(p.visible);
  free(p.counts);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_count_is_right)};
  return cmocka_run_group_tests(tests, begin, end);
}
