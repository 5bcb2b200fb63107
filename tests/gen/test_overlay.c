/* test_overlay.c: variants and kernels in a user's folder: found, checked, and named with their
   line when they are wrong, by Lua or by the compiler. */
#include "rendering.h"
#include "support/expect.h"

#include "gen/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Variants ------------------------------------------------------------------------------- */

static void faulty_variants_name_file_and_line(void **state) {
  static const template_case cases[] = {
      {"syntax", "return variant {\n  doc = 'x'\n  keep = 1,\n}\n", "/variants/bad.lua:3:"},
      {"no variant", "return {}\n", "/variants/bad.lua|must return variant"},
      {"nothing", "local x = 1\n", "/variants/bad.lua|must return variant"},
      {"no doc", "\nreturn variant { keep = function(at) return le(at.k, at.q) end }\n",
       "/variants/bad.lua: |lacks doc"},
      {"no function", "return variant { doc = 'x' }\n",
       "/variants/bad.lua: |neither keep nor score"},
      {"an unknown field", "return variant { doc = 'x', mask = 1 }\n",
       "/variants/bad.lua: |unknown field 'mask'"},
      {"a field of another type", "return variant { doc = 'x', keep = 1 }\n",
       "/variants/bad.lua: |keep must be a function"},
      {"Lua's own comparison",
       "return variant { doc = 'x',\n  keep = function(at)\n    return at.k <= at.q\n  end }\n",
       "/variants/bad.lua:3:|le(a, b)"},
      {"an unknown position",
       "return variant { doc = 'x', keep = function(at)\n  return le(at.row, 0)\nend }\n",
       "/variants/bad.lua:2:|at.row is unknown|at.q at.k at.head"},
      {"a truth where a number is due",
       "return variant { doc = 'x', keep = function(at)\n  return le(le(at.k, 1), 0)\nend }\n",
       "/variants/bad.lua:1:|le takes a number"},
      {"a number where a truth is due",
       "return variant { doc = 'x', keep = function(at)\n\n  return at.k & at.q\nend }\n",
       "/variants/bad.lua:3:|& takes a truth"},
      {"a truth where a number is due, not returned",
       "return variant { doc = 'x', keep = function(at)\n  local d = le(le(at.k, 1), 0)\n"
       "  return d\nend }\n",
       "/variants/bad.lua:2:|le takes a number"},
      {"a word that is no expression",
       "return variant { doc = 'x', keep = function(at)\n  return le('a', at.k)\nend }\n",
       "/variants/bad.lua:1:|le takes expressions, not a string"},
      {"an unknown word",
       "return variant { doc = 'x', keep = function(at)\n  return less(at.k, at.q)\nend }\n",
       "/variants/bad.lua:2:|undefined name 'less'"},
      {"keep that returns a number",
       "return variant { doc = 'x', keep = function(at) return 1 end }\n",
       "/variants/bad.lua:1: keep must return a truth, not number"},
      {"score that returns a truth",
       "return variant { doc = 'x', score = function(s, at) return le(s, 1) end }\n",
       "/variants/bad.lua:1: score must return a number, not a truth"},
      {"keep that returns nothing", "return variant { doc = 'x', keep = function(at) end }\n",
       "/variants/bad.lua:1: keep must return a truth"},
  };
  render_result result;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    overlay_write(&folder, "variants/bad.lua", cases[i].text);
    fa_status status = render_words(&result, "fwd cpu f32 d64 bad");
    if (status != FA_TEMPLATE) fail_msg("%s: %s", cases[i].what, fa_status_name(status));
    expect_words(cases[i].what, fa_error_message(), cases[i].wanted);
  }
}

static void variants_are_found_listed_and_explained(void **state) {
  static const char ahead[] = "return variant { doc = 'at most 5 ahead',\n"
                              "  keep = function(at) return le(at.k - at.q, 5) end }\n";
  char *doc = NULL;
  bundle_names names;
  render_result result;
  (void)state;
  overlay_write(&folder, "variants/ahead.lua", ahead);
  overlay_write(&folder, "variants/zebra.lua", ahead);
  overlay_write(&folder, "variants/notes.txt", "not a variant");
  expect_ok(bundle_variants(&names, folder.path));
  assert_true(names.count > 2);
  assert_string_equal(names.names[0], "ahead");
  assert_string_equal(names.names[names.count - 1], "zebra");
  bundle_names_free(&names);
  expect_ok(render_variant_doc(&doc, "ahead", folder.path));
  assert_string_equal(doc, "at most 5 ahead");
  free(doc);
  expect_refused(render_variant_doc(&doc, "none", folder.path), FA_TEMPLATE, "variants/none.lua");
  assert_null(doc);
  expect_ok(render_words(&result, "fwd cpu f32 d64 ahead"));
  assert_string_equal(result.keep, "k q sub 5 le");
  assert_non_null(strstr(result.kernel.text, "if (!(k_position - q_position <= 5))"));
  render_free(&result);
  expect_refused(render_words(&result, "fwd cpu f32 d64 tiger"), FA_INVALID,
                 "'tiger'|ahead alibi |causal|zebra");
}

/* Where minus signs meet, C reads something else. */
static void expressions_are_spelt_as_c_reads_them(void **state) {
  static const template_case cases[] = {
      {"a double minus", "le(-(-at.k), at.q)", "k_position <= q_position"},
      {"minus a negative number", "le(at.k - (-3), at.q)", "k_position - -3 <= q_position"},
      {"minus a difference", "le(at.k - (at.q - 3), 0)", "k_position - (q_position - 3) <= 0"},
      {"minus a sum", "le(-(at.k + at.q), 0)", "-(k_position + q_position) <= 0"},
      {"or below and", "(le(at.k, 1) | le(at.q, 2)) & le(at.k, 3)",
       "(k_position <= 1 || q_position <= 2) && k_position <= 3"},
      {"and below or", "le(at.k, 1) | le(at.q, 2) & le(at.k, 3)",
       "k_position <= 1 || (q_position <= 2 && k_position <= 3)"},
  };
  render_result result;
  char text[256], wanted[256];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    snprintf(text, sizeof text, "return variant { doc = 'x', keep = function(at) return %s end }\n",
             cases[i].text);
    overlay_write(&folder, "variants/spelt.lua", text);
    expect_ok(render_words(&result, "fwd cpu f32 d64 spelt"));
    snprintf(wanted, sizeof wanted, "!(%s))", cases[i].wanted);
    if (!strstr(result.kernel.text, wanted)) {
      const char *got = strstr(result.kernel.text, "!(");
      fail_msg("%s: '%.*s', wanted '%s'", cases[i].what, got ? (int)strcspn(got, "\n") : 4,
               got ? got : "none", wanted);
    }
    render_free(&result);
  }
}

/* ---- Overlay folders ------------------------------------------------------------------------ */

static void a_missing_overlay_is_refused(void **state) {
  fa_spec spec = canonical(rendering_words);
  render_result result;
  bundle_names names;
  (void)state;
  const char *missing = overlay_path(&folder, "none");
  expect_refused(render_spec(&result, &spec, missing), FA_INVALID,
                 "template_dir|/none|No such file or directory");
  expect_refused(bundle_variants(&names, missing), FA_INVALID, "template_dir|/none");
  overlay_write(&folder, "file", "text");
  const char *file = overlay_path(&folder, "file");
  expect_refused(render_spec(&result, &spec, file), FA_INVALID, "template_dir|/file|not a folder");
  expect_refused(bundle_variants(&names, file), FA_INVALID, "template_dir|/file|not a folder");
}

static void what_is_not_in_the_overlay_is_embedded(void **state) {
  fa_spec spec = canonical("bwd cpu f32 d64 causal");
  render_result plain, with_folder;
  (void)state;
  expect_ok(render_spec(&plain, &spec, NULL));
  expect_ok(render_spec(&with_folder, &spec, folder.path));
  expect_same_text("an empty overlay", with_folder.kernel.text, plain.kernel.text);
  expect_same_text("an empty overlay", with_folder.launch.text, plain.launch.text);
  render_free(&with_folder);

  overlay_write(&folder, "variants/causal.lua",
                "return variant { doc = 'x', keep = function(at) return lt(at.k, at.q) end }\n");
  expect_ok(render_spec(&with_folder, &spec, folder.path));
  assert_null(strstr(with_folder.kernel.text, "k_position <= q_position"));
  assert_non_null(strstr(with_folder.kernel.text, "k_position < q_position"));
  expect_same_text("the launch", with_folder.launch.text, plain.launch.text);
  render_free(&with_folder);
  render_free(&plain);
}

static void files_that_cannot_be_read_are_named(void **state) {
  render_result result;
  (void)state;
  mkdir(overlay_path(&folder, "mask.lua"), 0700);
  expect_refused(render_words(&result, rendering_words), FA_TEMPLATE, "/mask.lua|Is a directory");
  rmdir(overlay_path(&folder, "mask.lua"));
  assert_int_equal(mkfifo(overlay_path(&folder, "mask.lua"), 0600), 0); /* nobody writes to it */
  expect_refused(render_words(&result, rendering_words), FA_TEMPLATE, "/mask.lua");
  unlink(overlay_path(&folder, "mask.lua"));

  char *large = calloc(1, 5 << 20);
  assert_non_null(large);
  memset(large, '\n', 5 << 20);
  overlay_write_bytes(&folder, "mask.lua", large, 5 << 20);
  free(large);
  expect_refused(render_words(&result, rendering_words), FA_TEMPLATE,
                 "/mask.lua|larger than 4 MiB");

  overlay_write(&folder, "mask.lua", "return {}");
  chmod(overlay_path(&folder, "mask.lua"), 0);
  chmod(folder.path, 0755);
  if (geteuid() == 0) assert_int_equal(seteuid(65534), 0); /* root reads files of every mode */
  fa_status status = render_words(&result, rendering_words);
  if (getuid() == 0) assert_int_equal(seteuid(0), 0);
  expect_refused(status, FA_TEMPLATE, "/mask.lua|Permission denied");
}

static void targets_without_kernels_are_refused(void **state) {
  fa_spec spec = canonical("fwd sm90 bf16 d128");
  fa_spec best = canonical("fwd bf16 d128");
  render_result result;
  (void)state;
  expect_refused(render_spec(&result, &best, NULL), FA_INVALID, "target");
  overlay_write(&folder, "sm90/tiles.lua", "return { facts = {} }\n");
  overlay_write(&folder, "sm90/fwd.cu.lua", "// ${spec.name} on ${spec.arch}\n");
  overlay_write(&folder, "sm90/steps.c.lua", "// ${spec.name}\n");
  expect_ok(render_spec(&result, &spec, folder.path));
  assert_string_equal(result.kernel.text, "// fa_fwd_sm90_bf16_d128 on 90\n");
  render_free(&result);
}

/* ---- Logs of compilers ---------------------------------------------------------------------- */

static void compiler_logs_are_mapped_to_template_lines(void **state) {
  char *origins[] = {"templates/a.lua:10", "templates/b.lua:7"};
  render_text text = {.text = "x\ny\n", .origins = origins, .lines = 2};
  static const char log[] = "k.c:2: error: no\nother.c:1: error: no\nk.c:3: beyond\nk.c:0: before\n"
                            "k.c:1:5: warning: w\nk.c(2): error: of NVRTC\nno position";
  (void)state;
  char *mapped = render_map_log(&text, log, "k.c");
  assert_string_equal(mapped, "templates/b.lua:7: error: no (k.c:2)\nother.c:1: error: no\n"
                              "k.c:3: beyond\nk.c:0: before\n"
                              "templates/a.lua:10:5: warning: w (k.c:1)\n"
                              "templates/b.lua:7: error: of NVRTC (k.c(2))\nno position");
  free(mapped);
}

/* Copies an embedded template into the overlay with `line` put behind the first line that has
   `behind`; gives the number of the new line. */
static int copy_with_line(const char *name, const char *behind, const char *line) {
  char path[512];
  snprintf(path, sizeof path, "%s/templates/%s", FAGEN_SOURCE_DIR, name);
  char *text = read_whole_file(path), *faulty = NULL, *at = strstr(text, behind);
  if (!at) fail_msg("%s has no '%s'", name, behind);
  at = strchr(at, '\n') + 1;
  size_t bytes = 0;
  FILE *to = open_memstream(&faulty, &bytes);
  fprintf(to, "%.*s%s\n%s", (int)(at - text), text, line, at);
  fclose(to);
  overlay_write(&folder, name, faulty);
  int number = 1;
  for (const char *c = text; c < at; ++c) number += *c == '\n';
  free(text);
  free(faulty);
  return number;
}

static fa_status get_kernel(const char *words) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *context;
  const fa_kernel *kernel;
  options.backend = FA_CPU;
  options.threads = 1;
  options.template_dir = folder.path;
  expect_ok(fa_context_create(&context, &options));
  fa_spec spec = canonical(words);
  fa_status status = fa_get_kernel(&kernel, context, &spec);
  if (status) assert_null(kernel);
  fa_context_destroy(context);
  return status;
}

static void compile_errors_name_the_template_line(void **state) {
  static const struct compile_case {
    const char *file, *behind, *line, *words;
  } cases[] = {
      {"cpu/fwd.c.lua", "ops = block->ops;", "  undefined_identifier = 1;", "undefined_identifier"},
      {"cpu/fwd.c.lua", "ops = block->ops;", "  undefined_function(1);", "undefined_function"},
      {"cpu/fwd.c.lua", "ops = block->ops;", "  break;", "break"},
      {"cpu/prelude.c.lua", "enum {", "  ++,", "expected"},
      {"tensor_steps.c.lua", "to->data = from->data;", "  to->none = 0;", "none"},
      {"launch.c.lua", "fagen_plan.h", "int x = \"text\" * 2;", ""},
  };
  char words[256];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    rendering_empty(NULL);
    int line = copy_with_line(cases[i].file, cases[i].behind, cases[i].line);
    snprintf(words, sizeof words, "%s/%s:%d: error|%s", folder.path, cases[i].file, line,
             cases[i].words);
    expect_refused(get_kernel(rendering_words), FA_COMPILE, words);
  }
}

static void a_plan_must_name_entries_that_exist(void **state) {
  (void)state;
  copy_with_line("cpu/steps.c.lua", "query_tiles, in->heads_q, in->batch, ${tiles.scratch_bytes}",
                 "  out->steps[0].entry = \"none\";");
  expect_refused(get_kernel(rendering_words), FA_COMPILE, "none|entry that the kernel lacks");
}

/* A failure is not kept: the same context builds once the file is right. */
static void a_repaired_template_is_read_again(void **state) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *context;
  const fa_kernel *kernel;
  fa_spec spec = canonical(rendering_words);
  (void)state;
  options.backend = FA_CPU;
  options.template_dir = folder.path;
  expect_ok(fa_context_create(&context, &options));
  overlay_write(&folder, "cpu/fwd.c.lua", "% error 'not yet'\n");
  expect_refused(fa_get_kernel(&kernel, context, &spec), FA_TEMPLATE, "/cpu/fwd.c.lua:1:|not yet");
  expect_refused(fa_get_kernel(&kernel, context, &spec), FA_TEMPLATE, "/cpu/fwd.c.lua:1:|not yet");
  unlink(overlay_path(&folder, "cpu/fwd.c.lua"));
  expect_ok(fa_get_kernel(&kernel, context, &spec));
  fa_context_destroy(context);
}

int main(void) {
#define EMPTY(test) cmocka_unit_test_setup(test, rendering_empty)
  const struct CMUnitTest tests[] = {
      EMPTY(faulty_variants_name_file_and_line),
      EMPTY(variants_are_found_listed_and_explained),
      EMPTY(expressions_are_spelt_as_c_reads_them),
      EMPTY(a_missing_overlay_is_refused),
      EMPTY(what_is_not_in_the_overlay_is_embedded),
      EMPTY(files_that_cannot_be_read_are_named),
      EMPTY(targets_without_kernels_are_refused),
      EMPTY(compiler_logs_are_mapped_to_template_lines),
      EMPTY(compile_errors_name_the_template_line),
      EMPTY(a_plan_must_name_entries_that_exist),
      EMPTY(a_repaired_template_is_read_again),
  };
  return cmocka_run_group_tests(tests, rendering_begin, rendering_end);
}
