/* test_mutations.c: tests that can fail. Copies of templates with one small mistake each go through
   `fagen check`, which must exit 1; the same copies without a mistake exit 0. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "support.h"

#include "../support/overlay.h"
#include "gen/bundle.h"
#include "runtime/cli/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct mutation {
  const char *what;
  const char *file; /* below templates/ */
  const char *from, *to;
  const char *words; /* of a spec that shows it */
} mutation;

static const mutation mutations[] = {
    {"forward: scale dropped", "cpu/fwd.c.lua", "rows, DIM_QK, a->softmax_scale);",
     "rows, DIM_QK, 1.0f);", "fwd cpu f32 d64"},
    {"forward: kv head of the wrong group", "cpu/fwd.c.lua", "&a->v, batch, head / GROUP",
     "&a->v, batch, head % GROUP", "fwd cpu f32 d64 gqa2"},
    {"forward: positions not shifted", "cpu/fwd.c.lua", "row_first + a->seqlen_k - a->seqlen_q",
     "row_first", "fwd cpu f32 d64 causal"},
    {"forward: accumulation dropped", "cpu/fwd.c.lua", "rows, DIM_V, keys, 1);",
     "rows, DIM_V, keys, 0);", "fwd cpu f32 d64"},
    {"mask: one key too many", "variants/causal.lua", "le(at.k, at.q)", "le(at.k, at.q + 1)",
     "fwd cpu f32 d64 causal"},
    {"mask: one key too few", "variants/causal.lua", "le(at.k, at.q)", "lt(at.k, at.q)",
     "bwd cpu bf16 d64 causal"},
    {"mask: sign flipped", "variants/causal.lua", "le(at.k, at.q)", "ge(at.k, at.q)",
     "fwd cpu f16 d64 causal"},
    {"backward: scale of the scores dropped", "cpu/bwd.c.lua", "rows, DIM_QK, a->softmax_scale);",
     "rows, DIM_QK, 1.0f);", "bwd cpu f32 d64"},
    {"backward: scale of dQ dropped", "cpu/bwd.c.lua", "DIM_QK,\n      a->softmax_scale);",
     "DIM_QK,\n      1.0f);", "bwd cpu bf16 d64"},
    {"backward: dK negated", "cpu/bwd.c.lua", "dk, LD_QK, keys, DIM_QK, 1.0f);",
     "dk, LD_QK, keys, DIM_QK, -1.0f);", "bwd cpu f16 d64"},
    {"backward: dQ and dK from P instead of dS", "cpu/bwd.c.lua", "LD_QK, ds, 1, KEYS, q",
     "LD_QK, s, 1, KEYS, q", "bwd cpu f32 d64"},
    {"backward: D not subtracted", "cpu/bwd.c.lua", "rows, keys, a->d + row);",
     "rows, keys, a->lse + row);", "bwd cpu f32 d64"},
    {"backward: one head of the group left out", "cpu/bwd.c.lua", "member = 0; member < GROUP",
     "member = 1; member < GROUP", "bwd cpu f32 d64 gqa2"},
    {"preprocess: columns left out", "cpu/preprocess.c.lua",
     "dout, a->dout.stride_seq, rows,\n      DIM_V);",
     "dout, a->dout.stride_seq, rows,\n      DIM_V - 8);", "pre cpu f32 d64"},
    {"variants: derivative of tanh", "derivative.lua", "subtract(one, multiply(n, n))",
     "subtract(one, n)", "bwd cpu f32 d64 softcap"},
    {"variants: derivative of abs, sign of one side", "derivative.lua",
     "n[1], zero), da, negate(da))", "n[1], zero), da, da)", "bwd cpu f32 d64 shaped"},
    {"variants: derivative of select, branches swapped", "derivative.lua",
     "return branch(n[1], da, db)", "return branch(n[1], db, da)", "bwd cpu f32 d64 gated"},
    {"variants: derivative of a product, one term", "derivative.lua",
     "add(multiply(da, n[2]), multiply(n[1], db))", "multiply(da, n[2])", "bwd cpu f32 d64 gated"},
    {"variants: upper end of a quotient's range", "interval.lua", "all \"min\", all \"max\"",
     "all \"min\", all \"min\"", "fwd cpu f32 d64 block_draft"},
    {"variants: eq surely holds when it may", "interval.lua",
     "string.format(\"%s == %s && %s == %s\", a[1], b[2], b[1], a[2])\n  end,\n  ne",
     "string.format(\"%s <= %s && %s <= %s\", a[1], b[2], b[1], a[2])\n  end,\n  ne",
     "fwd cpu f32 d64 document"},
    {"variants: ids of the wrong rows", "interval.lua", "\"q_low - %s + %s\"",
     "\"q_low + 0 * %s + 0 * %s\"", "fwd cpu f32 d64 document"},
    {"variants: a bound one tile off", "mask.lua", "plus = sign * sum.c",
     "plus = sign * sum.c - 64", "fwd cpu f32 d64 causal"},
    {"variants: the sink of a row is no term", "cpu/fwd.c.lua", "row_sum[i] = 1.0f;",
     "row_sum[i] = 0.0f;", "fwd cpu f32 d64 sink"},
    {"variants: sign of a sink's gradient", "cpu/gradients.c.lua", "sum -= ops->exp",
     "sum += ops->exp", "bwd cpu f32 d64 sink"},
    {"variants: part of a table's gradient left out", "cpu/gradients.c.lua", "i < outer; ++i)",
     "i + 1 < outer; ++i)", "bwd cpu f32 d64 bias"},
    {"variants: a table's gradient one element on", "cpu/gradients.lua",
     "if d.per then index = string.format(\"member * %s + %s\"",
     "index = index .. \" + 1\"\n    if d.per then index = string.format(\"member * %s + %s\"",
     "bwd cpu f32 d64 steps"},
    {"variants: one pair of a thousand left out, of a sum that is 0", "cpu/gradients.lua",
     "(string.format(\"%s += %s;\"",
     "(string.format(\"if ((i * KEYS + j) %% 1000 != 7) %s += %s;\"", "bwd cpu f32 d64 level"},
    {"variants: gradients by rows not cleared", "cpu/gradients.lua",
     "if by_scores[slot] and kind_of(slot) == \"q\" then", "if false then",
     "bwd cpu f32 d64 tables"},
    {"forward: kv head of the wrong group", "sm80/fwd.cu.lua",
     "rows_of(a.v, a.heads_kv, anew(head) / GROUP)", "rows_of(a.v, a.heads_kv, anew(head) % GROUP)",
     "fwd sm80 f16 d64 gqa2"},
    {"backward: one head of the group left out", "sm80/bwd.cu.lua",
     "unsigned head = pair * GROUP; head <", "unsigned head = pair * GROUP + 1; head <",
     "bwd sm80 bf16 d64 gqa2"},
    {"preprocess: columns left out", "sm80/preprocess.cu.lua", "chunk < DIM_V / 8",
     "chunk < DIM_V / 8 - 1", "pre sm80 f16 d64"},
    {"gradients: a column of diagonals left out", "gpu_gradients_kinds.cu.lua",
     "if (row + distance >= 0 &&", "if (row + distance > 0 &&", "bwd cpu f32 d64 bias"},
    {"gradients: what is past the end of a table left out", "gpu_gradients_kinds.cu.lua",
     "else if (element >= length - 1)", "else if (element == length - 1)", "bwd cpu f32 d64 bias"},
    {"gradients: one warp's share of rows for two", "gpu_gradients_kinds.cu.lua",
     "sums.of_warps[threadIdx.x / 64][first_row", "sums.of_warps[0][first_row",
     "bwd cpu f32 d64 tables"},
    {"gradients: a part left out", "gpu_gradients_sums.cu.lua", "long long part = warp; part",
     "long long part = warp + (warp == 0); part", "bwd cpu f32 d64 tables"},
};

static overlay folder;

/* The mutated files come before the tests' own variants, which are copied beside them. */
static void copy_variants(void) {
  static const char *const copied[] = {"shaped", "gated", "tables", "steps", "level"};
  for (size_t i = 0; i < COUNT_OF(copied); ++i) {
    char name[64], *text, *path;
    size_t bytes;
    snprintf(name, sizeof name, "variants/%s.lua", copied[i]);
    expect_ok(bundle_read(&text, &bytes, &path, support_overlay(), name));
    overlay_write(&folder, name, text);
    free(text);
    free(path);
  }
}

static int make_folder(void **state) {
  overlay_create(&folder);
  copy_variants();
  setenv("FA_TEMPLATE_DIR", folder.path, 1);
  return support_begin(state);
}

static int remove_folder(void **state) {
  overlay_remove(&folder);
  return support_end(state);
}

/* Whether the file is the target's, or of all GPU targets, or of all. The modules behind variants are
   tried on cpu. */
static int applies(const mutation *m) {
  char target[FA_NAME_MAX];
  if (!strncmp(m->file, "gpu_", 4)) return on_gpu();
  if (!strchr(m->file, '/')) return !on_gpu();
  target_words(target, "cpu/");
  return !strncmp(m->file, target, strlen(target)) || !strncmp(m->file, "variants/", 9);
}

/* The embedded text of m->file with the one place of m->from replaced. Yours: free(). */
static char *mutated(const mutation *m, const char *to) {
  char *text, *unused;
  size_t bytes, from = strlen(m->from);
  expect_ok(bundle_read(&text, &bytes, &unused, NULL, m->file));
  char *place = strstr(text, m->from);
  if (!place) fail_msg("%s: '%s' is not in %s", m->what, m->from, m->file);
  if (strstr(place + 1, m->from)) fail_msg("%s: '%s' is twice in %s", m->what, m->from, m->file);
  char *result = malloc(bytes + strlen(to) + 1);
  assert_non_null(result);
  sprintf(result, "%.*s%s%s", (int)(place - text), text, to, place + from);
  free(text);
  free(unused);
  return result;
}

/* The exit code of a check with the file of m rewritten. */
static int check_with(const mutation *m, const char *to, char *printed, size_t room) {
  char words[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT;
  cli_sizes sizes = {.batch = 1, .heads_q = 6, .seqlen_q = 70, .seqlen_k = 140, .seed = 3};
  FILE *out = tmpfile();
  assert_non_null(out);
  target_words(words, m->words);
  expect_ok(fa_spec_parse(&spec, words));
  sizes.heads_kv = sizes.heads_q / (spec.group ? spec.group : 1);
  char *text = mutated(m, to);
  overlay_write(&folder, m->file, text);
  free(text);
  int code = cli_check(&spec, &sizes, out);
  unlink(overlay_path(&folder, m->file));
  rewind(out);
  printed[fread(printed, 1, room - 1, out)] = '\0';
  fclose(out);
  return code;
}

/* Of all targets, so that a change of a GPU's templates is seen where there is no GPU. */
static void every_mistake_has_its_place(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(mutations); ++i) free(mutated(&mutations[i], mutations[i].to));
}

static void a_copy_without_a_mistake_exits_0(void **state) {
  char printed[4096];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(mutations); ++i)
    if (applies(&mutations[i]) &&
        check_with(&mutations[i], mutations[i].from, printed, sizeof printed) != 0)
      fail_msg("%s: a plain copy of %s fails:\n%s", mutations[i].what, mutations[i].file, printed);
}

static void every_mistake_exits_1(void **state) {
  char printed[4096];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(mutations); ++i) {
    if (!applies(&mutations[i])) continue;
    int code = check_with(&mutations[i], mutations[i].to, printed, sizeof printed);
    if (code != 1) fail_msg("%s: exit code %d:\n%s", mutations[i].what, code, printed);
    if (!strstr(printed, "WRONG")) fail_msg("%s: did not run:\n%s", mutations[i].what, printed);
  }
}

static void a_kernel_that_does_not_compile_exits_1(void **state) {
  static const mutation broken = {"forward: no longer C", "cpu/fwd.c.lua",
                                  "const int keys =", "const int keys =;", "fwd cpu f32 d64"};
  char printed[4096];
  (void)state;
  cpu_only("the file is of the cpu target");
  assert_int_equal(check_with(&broken, broken.to, printed, sizeof printed), 1);
  assert_string_equal(printed, "");
  expect_words("message", fa_error_message(), "cpu/fwd.c.lua:");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mistake_has_its_place),
      cmocka_unit_test(a_copy_without_a_mistake_exits_0),
      cmocka_unit_test(every_mistake_exits_1),
      cmocka_unit_test(a_kernel_that_does_not_compile_exits_1),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
