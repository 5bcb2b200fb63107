/* test_emitted_text.c: what every emitted text keeps to, over a matrix of specs; and that it is the
   same to the byte in another process, folder, environment and locale. */
#include "support/comma_locale.h"
#include "support/expect.h"

#include "gen/render.h"
#include "gen/spec.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void render_words(render_result *out, const char *words, const char *folder) {
  fa_spec spec = FA_SPEC_INIT, canonical = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&canonical, &spec));
  expect_ok(render_spec(out, &canonical, folder));
}

/* ---- Lint ----------------------------------------------------------------------------------- */

enum { COLUMNS = 100 };

static const char *fault_in_line(const char *line, size_t length, int after_blank) {
  if (length == 0) return after_blank ? "two blank lines" : NULL;
  if (length > COLUMNS) return "wider than 100 columns";
  if (line[length - 1] == ' ') return "trailing blank";
  if (line[0] == '%') return "a line of Lua";
  for (size_t i = 0; i < length; ++i) {
    if (line[i] < 0x20 || line[i] > 0x7e) return "not printable ASCII";
    if (line[i] == '$') return "a $";
  }
  if (!strncmp(line, "#include", 8)) return "includes something";
  return NULL;
}

static void lint(const char *name, const char *text) {
  const char *at = text;
  int after_blank = 1;
  for (int line = 1; *at; ++line) {
    size_t length = strcspn(at, "\n");
    const char *fault = at[length] ? fault_in_line(at, length, after_blank) : "no final newline";
    if (fault) fail_msg("%s:%d: %s: '%.*s'", name, line, fault, (int)length, at);
    after_blank = length == 0;
    at += length + 1;
  }
  if (after_blank) fail_msg("%s: ends with a blank line, or is empty", name);
}

static void every_text_is_tidy(void **state) {
  static const char *const passes[] = {"fwd", "pre", "bwd"};
  static const char *const places[] = {"cpu f32", "cpu f16", "cpu bf16"};
  static const char *const dims[] = {"d8", "d64", "d128 v256", "d256 v72"};
  static const char *const rest[] = {"", "causal", "gqa128 causal det"};
  const size_t count = COUNT_OF(passes) * COUNT_OF(places) * COUNT_OF(dims) * COUNT_OF(rest);
  (void)state;
  for (size_t i = 0, n = 0; i < count; n = ++i) {
    const char *const pass = passes[n % COUNT_OF(passes)];
    const char *const place = places[(n /= COUNT_OF(passes)) % COUNT_OF(places)];
    const char *const dim = dims[(n /= COUNT_OF(places)) % COUNT_OF(dims)];
    char words[FA_NAME_MAX];
    render_result result;
    snprintf(words, sizeof words, "%s %s %s %s", pass, place, dim, rest[n / COUNT_OF(dims)]);
    render_words(&result, words, NULL);
    lint(result.name, result.kernel.text);
    lint(result.name, result.launch.text);
    render_free(&result);
  }
}

static void texts_of_variants_are_tidy_too(void **state) {
  static const char *const words[] = {
      "fwd cpu f32 d64 softcap alibi",      "bwd cpu bf16 d64 gqa2 softcap alibi",
      "fwd cpu f32 d64 causal window sink", "bwd cpu f16 d64 gqa2 dilated sink",
      "fwd cpu f32 d64 block_draft",        "bwd cpu f32 d64 document bias",
      "fwd cpu bf16 d72 prefix_lm bias",    "bwd cpu f32 d64 causal block_draft",
      "bwd sm80 bf16 d64 causal bias",      "bwd sm90 bf16 d128 bias sink"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    render_result result;
    render_words(&result, words[i], NULL);
    lint(result.name, result.kernel.text);
    lint(result.name, result.launch.text);
    render_free(&result);
  }
}

/* Specialised by absence: what a spec does not use leaves no trace. */
static void unused_features_leave_no_text(void **state) {
  render_result plain, causal;
  (void)state;
  render_words(&plain, "bwd cpu f32 d64", NULL);
  render_words(&causal, "bwd cpu f32 d64 causal", NULL);
  static const char *const words[] = {"q_position", "k_position", "MINUS_INFINITY;", "tile_begin",
                                      "shift"};
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    if (strstr(plain.kernel.text, words[i])) fail_msg("'%s' without a mask", words[i]);
    if (!strstr(causal.kernel.text, words[i])) fail_msg("no '%s' with causal", words[i]);
  }
  render_free(&plain);
  render_free(&causal);
}

/* ---- Other processes ------------------------------------------------------------------------ */

/* Both texts of a spec, one after the other: free(). */
static char *texts_of(const char *words, const char *folder) {
  render_result result;
  render_words(&result, words, folder);
  size_t bytes = strlen(result.kernel.text) + strlen(result.launch.text) + 1;
  char *both = malloc(bytes);
  assert_non_null(both);
  snprintf(both, bytes, "%s%s", result.kernel.text, result.launch.text);
  render_free(&result);
  return both;
}

/* The same from this program started anew as `test_emitted_text WORDS`. */
static char *texts_of_process(const char *words, const char *cwd, char *const environment[]) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (chdir(cwd)) _exit(98);
    char *const arguments[] = {(char *)"test_emitted_text", (char *)words, NULL};
    execve("/proc/self/exe", arguments, environment);
    _exit(99);
  }
  close(ends[1]);
  FILE *from = fdopen(ends[0], "r");
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  for (int c; (c = fgetc(from)) != EOF;) fputc(c, to);
  fclose(from);
  fclose(to);
  int status = -1;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  return text;
}

static void every_process_emits_the_same_bytes(void **state) {
  static const char *const specs[] = {"fwd cpu f32 d64", "bwd cpu bf16 d72 gqa2 causal det",
                                      "pre cpu f16 d128 v64"};
  char *const bare[] = {NULL};
  char *const other[] = {(char *)"LANG=de_DE.UTF-8",   (char *)"TZ=Asia/Tokyo",
                         (char *)"HOME=/nonexistent",  (char *)"FA_TEMPLATE_DIR=/nonexistent",
                         (char *)"LUA_INIT=error()",   (char *)"LUA_PATH=/nonexistent/?.lua",
                         (char *)"MALLOC_PERTURB_=85", NULL};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(specs); ++i) {
    char *wanted = texts_of(specs[i], NULL);
    char *got_bare = texts_of_process(specs[i], "/", bare);
    char *got_other = texts_of_process(specs[i], "/proc", other);
    expect_same_text(specs[i], got_bare, wanted);
    expect_same_text(specs[i], got_other, wanted);
    free(wanted);
    free(got_bare);
    free(got_other);
  }
}

/* ---- Locale --------------------------------------------------------------------------------- */

static void a_decimal_comma_does_not_reach_the_text(void **state) {
  static const char words[] = "bwd cpu f32 d64 half";
  overlay folder;
  (void)state;
  overlay_create(&folder);
  overlay_write(&folder, "variants/half.lua",
                "return variant { doc = 'x', score = function(s) return 0.5 * s end }\n");
  char *wanted = texts_of(words, folder.path);
  assert_non_null(strstr(wanted, "0.5f * s"));
  int set = comma_locale_set(&folder);
  char *got = set ? texts_of(words, folder.path) : NULL;
  if (set) assert_string_equal(localeconv()->decimal_point, ",");
  setlocale(LC_ALL, "C");
  if (set) expect_same_text(words, got, wanted);
  free(got);
  free(wanted);
  overlay_remove(&folder);
  if (!set) skip();
}

int main(int count, char **arguments) {
  if (count > 1) {
    setlocale(LC_ALL, "");
    char *text = texts_of(arguments[1], NULL);
    fputs(text, stdout);
    free(text);
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_text_is_tidy),
      cmocka_unit_test(texts_of_variants_are_tidy_too),
      cmocka_unit_test(unused_features_leave_no_text),
      cmocka_unit_test(every_process_emits_the_same_bytes),
      cmocka_unit_test(a_decimal_comma_does_not_reach_the_text),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
