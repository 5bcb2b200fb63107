/* test_engine.c: the template language and its sandbox, through overlay folders: what templates
   print, what they cannot do, and that every failure names the file and the line. */
#include "gen/error.h"
#include "support/expect.h"
#include "support/overlay.h"

#include "gen/bundle.h"
#include "gen/render.h"
#include "gen/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The kernel that these tests replace. */
static const char *const spec_words = "fwd cpu f32 d64";
static const char *const kernel_file = "cpu/fwd.c.lua";

static overlay folder;

static int begin(void **state) {
  overlay_create(&folder);
  return expect_to_end(state);
}

static int end(void **state) {
  (void)state;
  overlay_remove(&folder);
  return 0;
}

/* Each test starts with an empty folder. */
static int empty_folder(void **state) {
  (void)state;
  overlay_remove(&folder);
  overlay_create(&folder);
  return 0;
}

static fa_spec canonical(const char *words) {
  fa_spec spec = FA_SPEC_INIT, out = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&out, &spec));
  return out;
}

static fa_status render_words(render_result *out, const char *words) {
  fa_spec spec = canonical(words);
  return render_spec(out, &spec, folder.path);
}

/* Renders with the kernel's template replaced by `text`. */
static fa_status render_template(render_result *out, const char *text) {
  overlay_write(&folder, kernel_file, text);
  return render_words(out, spec_words);
}

static void assert_prints(const char *what, const char *template, const char *wanted) {
  render_result result;
  fa_status status = render_template(&result, template);
  if (status) fail_msg("%s: %s: %s", what, fa_status_name(status), fa_error_message());
  expect_same_text(what, result.kernel.text, wanted);
  render_free(&result);
}

/* words begin with the file and line that the message must name. */
static void assert_fails(const char *what, const char *template, const char *words) {
  render_result result;
  fa_status status = render_template(&result, template);
  if (status != FA_TEMPLATE)
    fail_msg("%s: %s (%s)", what, fa_status_name(status), status ? fa_error_message() : "");
  assert_null(result.kernel.text);
  expect_words(what, fa_error_message(), words);
}

typedef struct template_case {
  const char *what, *template, *wanted;
} template_case;

/* ---- What templates print -------------------------------------------------------------------- */

static const template_case printing[] = {
    {"text is verbatim", "int x = 1;\n  return 2 % 3;\n", "int x = 1;\n  return 2 % 3;\n"},
    {"no final newline", "int x;", "int x;\n"},
    {"only the first column makes Lua", " % x\n", " % x\n"},
    {"a loop", "% for i = 1, 3 do\nint x${i};\n% end\n", "int x1;\nint x2;\nint x3;\n"},
    {"a condition", "% if spec.dim_qk == 64 then\nyes\n% else\nno\n% end\n", "yes\n"},
    {"integers", "${7} ${-7} ${2^53 // 1 | 0} ${math.mininteger}",
     "7 -7 9007199254740992 -9223372036854775808\n"},
    {"floats are C literals", "${0.5} ${2.0} ${-1e-9} ${1e30} ${1/3}",
     "0.5f 2.0f -1e-09f 1e+30f 0.333333333f\n"},
    {"strings", "${'a' .. \"b\"}c", "abc\n"},
    {"braces inside ${}", "${({ x = { 5 } }).x[1]}", "5\n"},
    {"$ alone", "a $ b $$ {c}", "a $ b $$ {c}\n"},
    {"several lines take the column of ${}",
     "% local body = 'a;\\n\\n  b;\\nc;'\nf {\n    ${body}\n}",
     "f {\n    a;\n\n      b;\n    c;\n}\n"},
    {"an empty value removes its line", "a\n  ${''}\nb\n", "a\nb\n"},
    {"an empty value inside a line", "a${''}b\n", "ab\n"},
    {"trailing blanks go", "a  \t\nb${' '}\n", "a\nb\n"},
    {"two blank lines become one", "a\n\n\n\nb\n", "a\n\nb\n"},
    {"no blank line opens or closes a block", "\nf() {\n\n  x;\n\n}\n\n", "f() {\n  x;\n}\n"},
    {"carriage returns go", "% local x = 1\r\na${x}\r\nb\r\n", "a1\nb\n"},
    {"the spec's fields",
     "${spec.name} ${spec.words} ${spec.pass} ${spec.target} ${spec.dtype} ${spec.dim_qk} "
     "${spec.dim_v} ${spec.group} ${spec.arch}",
     "fa_fwd_cpu_f32_d64 fwd cpu f32 d64 fwd cpu f32 64 64 1 0\n"},
    {"capture prints at the caller's column",
     "% local function body(n)\nx${n};\n\n  y;\n% end\nf {\n  ${capture(body, 3)}\n}",
     "f {\n  x3;\n\n    y;\n}\n"},
    {"captures nest",
     "% local function inner()\ni;\n% end\n% local function outer()\no {\n  ${capture(inner)}\n}\n"
     "% end\n  ${capture(outer)}",
     "  o {\n    i;\n  }\n"},
    {"a function that prints", "% local function twice(x)\n${x}\n${x}\n% end\n% twice(4)\n",
     "4\n4\n"},
    {"sorted keys", "% for _, key in ipairs(sorted { b = 1, a = 2, [3] = 0 }) do\n${key}\n% end\n",
     "3\na\nb\n"},
    {"tostring and format",
     "${tostring(1.5)} ${string.format('%03d|%s', 7, true)} ${('%x'):format(255)}",
     "1.5 007|true ff\n"},
};

static void templates_print_what_they_say(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(printing); ++i)
    assert_prints(printing[i].what, printing[i].template, printing[i].wanted);
}

static void files_include_paste_and_require_each_other(void **state) {
  (void)state;
  overlay_write(&folder, "cpu/part.c.lua", "part ${spec.dim_qk};\n% include 'cpu/inner.c.lua'\n");
  overlay_write(&folder, "cpu/inner.c.lua", "% local x = 2\ninner ${x};\n");
  overlay_write(&folder, "own.h", "#define X ${not} 100%\n% neither\n\n\n");
  overlay_write(&folder, "deep/er.lua",
                "local m = { n = 41 }\nfunction m.up(i) return i + 1 end\n"
                "return m\n");
  assert_prints("include", "% include 'cpu/part.c.lua'\n% include 'cpu/part.c.lua'\n",
                "part 64;\ninner 2;\npart 64;\ninner 2;\n");
  assert_prints("an include in a capture",
                "% local function f() include 'cpu/part.c.lua' end\n  ${capture(f)}\n",
                "  part 64;\n  inner 2;\n");
  assert_prints("paste", "a\n  ${paste 'own.h'}\n", "a\n  #define X ${not} 100%\n  % neither\n");
  assert_prints("require", "% local deep = require 'deep.er'\n${deep.up(deep.n)}\n", "42\n");
  assert_prints("require gives one module", "% require('deep.er').n = 5\n${require('deep.er').n}\n",
                "5\n");
}

static void every_line_knows_the_template_line_behind_it(void **state) {
  char wanted[256];
  render_result result;
  (void)state;
  overlay_write(&folder, "cpu/part.c.lua", "% local x = 1\npart;\n");
  overlay_write(&folder, "own.h", "one\ntwo\n");
  expect_ok(render_template(&result, "a\n% include 'cpu/part.c.lua'\n${paste 'own.h'}\n"
                                     "% local function f()\nprinted;\n% end\n${capture(f)}\n"
                                     "${'x\\ny'}\n"));
  static const char *const origins[] = {"cpu/fwd.c.lua:1", "cpu/part.c.lua:2", "own.h:1",
                                        "own.h:2",         "cpu/fwd.c.lua:5",  "cpu/fwd.c.lua:8",
                                        "cpu/fwd.c.lua:8"};
  assert_int_equal(result.kernel.lines, COUNT_OF(origins));
  for (size_t i = 0; i < COUNT_OF(origins); ++i) {
    snprintf(wanted, sizeof wanted, "%s/%s", folder.path, origins[i]);
    assert_string_equal(result.kernel.origins[i], wanted);
  }
  assert_string_equal(result.launch.origins[0], "templates/launch.c.lua:2");
  render_free(&result);
}

/* ---- What templates may not do --------------------------------------------------------------- */

static const template_case refusing[] = {
    {"syntax", "a\n% for x in\nb\n", "/cpu/fwd.c.lua:3:"},
    {"syntax inside ${}", "a\n${1 +}\n", "/cpu/fwd.c.lua:2:"},
    {"an empty ${}", "a\nb\n${}\n", "/cpu/fwd.c.lua:3:"},
    {"an open ${", "a\nb ${x\n", "/cpu/fwd.c.lua:2:|${ without }"},
    {"an open block", "% if true then\na\n", "/cpu/fwd.c.lua:2:|'end' expected"},
    {"a runtime error", "a\n% local x = nil + 1\n", "/cpu/fwd.c.lua:2:|arithmetic on a nil"},
    {"a runtime error inside ${}", "a\n\n${('x').y.z}\n", "/cpu/fwd.c.lua:3:|index a nil"},
    {"an error of its own", "a\n% error 'too wide'\n", "/cpu/fwd.c.lua:2:|too wide"},
    {"a failed assertion", "% local x\n% assert(x, 'no x')\n", "no x"},
    {"an error that is no string", "a\n% error {}\n", "/cpu/fwd.c.lua:2:|without a message"},
    {"nil", "a\n% local x\nint y = ${x};\n", "/cpu/fwd.c.lua:3:|${}|nil"},
    {"a table", "a\nint y = ${{}};\n", "/cpu/fwd.c.lua:2:|${}|table"},
    {"a truth value", "${true}", "/cpu/fwd.c.lua:1:|${}|boolean"},
    {"a function", "${ipairs}", "/cpu/fwd.c.lua:1:|${}|function"},
    {"infinity", "a\n${1/0}", "/cpu/fwd.c.lua:2:|no literal|inf"},
    {"not a number", "a\n${0/0}", "/cpu/fwd.c.lua:2:|no literal|nan"},
    {"several lines beside text", "a\nx = ${'b\\nc'};\n", "/cpu/fwd.c.lua:2:|a line of its own"},
    {"a block beside text", "% local function f()\nx\n% end\ny ${capture(f)}\n",
     "/cpu/fwd.c.lua:4:|a line of its own"},
    {"an undefined name", "a\n% local y = undefined_name\n",
     "/cpu/fwd.c.lua:2:|undefined name 'undefined_name'"},
    {"an undefined function", "% undefined_function()\n",
     "/cpu/fwd.c.lua:1:|undefined name 'undefined_function'"},
    {"a global", "a\n% x = 1\n", "/cpu/fwd.c.lua:2:|global 'x' assigned|local"},
    {"a global function", "% function f() end\n", "/cpu/fwd.c.lua:1:|global 'f' assigned"},
    {"a name of the sandbox", "% spec = {}\n", "/cpu/fwd.c.lua:1:|global 'spec' assigned"},
    {"a name of the engine", "% print_line = 1\n", "/cpu/fwd.c.lua:1:|global 'print_line'"},
    {"the environment", "% setmetatable(_ENV, {})\n", "/cpu/fwd.c.lua:1:|protected metatable"},
    {"a wrong argument", "a\n% local x = ('x'):rep({})\n", "/cpu/fwd.c.lua:2:|bad argument"},
    {"capture of nothing", "a\n% local x = capture(nil)\n", "/cpu/fwd.c.lua:2:|call a nil"},
    {"include of nothing", "a\n% include(nil)\n", "/cpu/fwd.c.lua:2:|string expected"},
    {"no such template", "a\n% include 'cpu/none.c.lua'\n",
     "/cpu/fwd.c.lua:2:|'cpu/none.c.lua'|no such file"},
    {"no such module", "a\n% local m = require 'cpu.none'\n",
     "/cpu/fwd.c.lua:2:|'cpu/none.lua'|no such file"},
    {"no such paste", "a\n${paste 'none.h'}\n", "/cpu/fwd.c.lua:2:|'none.h'|no such file"},
    {"a path upwards", "% include '../secret'\n", "/cpu/fwd.c.lua:1:|'../secret'|without '..'"},
    {"an absolute path", "% include '/etc/passwd'\n", "/cpu/fwd.c.lua:1:|'/etc/passwd'|below"},
    {"a module's path upwards", "% require '/etc/passwd'\n", "/cpu/fwd.c.lua:1:|below"},
    {"a template in itself", "a\n% include 'cpu/fwd.c.lua'\n", "/cpu/fwd.c.lua:2:|includes itself"},
    {"endless recursion", "% local function f() return 1 + f() end\n% f()\n",
     "/cpu/fwd.c.lua:1:|stack overflow"},
    {"the address of a table", "${tostring({})}", "/cpu/fwd.c.lua:1:|a table has no text"},
    {"the address of a function", "${tostring(ipairs)}", "/cpu/fwd.c.lua:1:|function has no text"},
    {"an address by format", "${string.format('%s', {})}", "/cpu/fwd.c.lua:1:|table has no text"},
    {"an address by %p", "${string.format('%p', {})}", "/cpu/fwd.c.lua:1:|address"},
    {"an address by a method", "${('%p'):format({})}", "/cpu/fwd.c.lua:1:|address"},
    {"an address as a key", "% sorted { [{}] = 1, [{}] = 2 }\n", "/cpu/fwd.c.lua:1:|no text"},
};

static void failures_name_file_and_line(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(refusing); ++i)
    assert_fails(refusing[i].what, refusing[i].template, refusing[i].wanted);
}

/* What would make a text depend on the machine, the run or the file system is not there. */
static void the_sandbox_lacks_what_is_unsafe_or_unordered(void **state) {
  static const char *const names[] = {
      "io",     "os",       "debug", "package",    "coroutine",      "utf8",   "load",    "dofile",
      "next",   "loadfile", "pairs", "print",      "pcall",          "xpcall", "rawset",  "rawlen",
      "rawget", "_G",       "warn",  "loadstring", "collectgarbage", "read",   "position"};
  static const char *const members[] = {"math.random", "math.randomseed", "string.dump",
                                        "('').dump", "table.move"};
  char template[128], words[128];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(names); ++i) {
    snprintf(template, sizeof template, "a\n%% local x = %s\n", names[i]);
    snprintf(words, sizeof words, "/cpu/fwd.c.lua:2:|undefined name '%s'", names[i]);
    assert_fails(names[i], template, words);
  }
  for (size_t i = 0; i < COUNT_OF(members); ++i) {
    snprintf(template, sizeof template, "${type(%s)}", members[i]);
    assert_prints(members[i], template, "nil\n");
  }
}

static void modules_cannot_assign_globals_either(void **state) {
  (void)state;
  overlay_write(&folder, "bad.lua", "local m = {}\nspec = nil\nreturn m\n");
  assert_fails("a module", "% require 'bad'\n", "/bad.lua:2:|global 'spec' assigned");
  overlay_write(&folder, "bad.lua", "local m = {}\nhelper = 1\nreturn m\n");
  assert_fails("a module", "% require 'bad'\n", "/bad.lua:2:|global 'helper' assigned");
  overlay_write(&folder, "bad.lua", "return function() return undefined_name end\n");
  assert_fails("a module", "% require('bad')()\n", "/bad.lua:1:|undefined name 'undefined_name'");
}

static void modules_that_require_each_other_are_refused(void **state) {
  (void)state;
  overlay_write(&folder, "one.lua", "local two = require 'two'\nreturn {}\n");
  overlay_write(&folder, "two.lua", "\nlocal one = require 'one'\nreturn {}\n");
  assert_fails("a cycle", "% require 'one'\n", "/two.lua:2:|'one' requires itself");
  overlay_write(&folder, "empty.lua", "local x = 1\n");
  assert_fails("no value", "a\n% require 'empty'\n", "/cpu/fwd.c.lua:2:|'empty'|returns nothing");
}

/* The file with the fault is named, not the one that included it. */
static void faults_in_other_files_name_those(void **state) {
  (void)state;
  overlay_write(&folder, "cpu/part.c.lua", "a\n\n${nil}\n");
  assert_fails("an included file", "% include 'cpu/part.c.lua'\n", "/cpu/part.c.lua:3:|nil");
  overlay_write(&folder, "cpu/part.c.lua", "a\n% for\n");
  assert_fails("an included file", "% include 'cpu/part.c.lua'\n", "/cpu/part.c.lua:2:");
  overlay_write(&folder, "cpu/part.c.lua", "a\n\n\n${1");
  assert_fails("an included file", "% include 'cpu/part.c.lua'\n", "/cpu/part.c.lua:4:|without }");
  overlay_write(&folder, "part.lua", "return {\n  a = 1,\n  b = nil + 1,\n}\n");
  assert_fails("a module", "% require 'part'\n", "/part.lua:3:|arithmetic");
  overlay_write(&folder, "part.lua", "return {");
  assert_fails("a module", "% require 'part'\n", "/part.lua:1:|<eof>");
}

static void bytecode_is_refused(void **state) {
  static const char bytecode[] = "\x1bLua\x54\x00\x19\x93\r\n\x1a\n";
  render_result result;
  (void)state;
  overlay_write_bytes(&folder, "code.lua", bytecode, sizeof bytecode - 1);
  assert_fails("a module", "% require 'code'\n", "binary chunk");
  overlay_write_bytes(&folder, "variants/code.lua", bytecode, sizeof bytecode - 1);
  expect_refused(render_words(&result, "fwd cpu f32 d64 code"), FA_TEMPLATE, "binary chunk");
}

/* ---- Limits ------------------------------------------------------------------------------------ */

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void endless_loops_are_stopped(void **state) {
  static const template_case loops[] = {
      {"a loop", "a\n% local i = 0\n% while true do i = i + 1 end\n",
       "/cpu/fwd.c.lua:3:|endless loop"},
      {"a loop of calls", "% local function f() end\n% repeat\n%   f()\n% until false\n",
       "/cpu/fwd.c.lua:|endless loop"},
      {"a loop in the engine", "a\n% while true do capture(ipairs, {}) end\n",
       "/cpu/fwd.c.lua:2:|endless loop"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(loops); ++i) {
    double start = seconds();
    assert_fails(loops[i].what, loops[i].template, loops[i].wanted);
    if (seconds() - start > 30) fail_msg("%s took %.1f s", loops[i].what, seconds() - start);
  }
}

static void endless_loops_in_modules_and_variants_are_stopped(void **state) {
  render_result result;
  (void)state;
  overlay_write(
      &folder, "variants/loop.lua",
      "return variant { doc = 'x',\n  keep = function(at)\n    while true do end\n  end }\n");
  expect_refused(render_words(&result, "fwd cpu f32 d64 loop"), FA_TEMPLATE,
                 "/variants/loop.lua:3:|endless loop");
}

static void memory_is_limited(void **state) {
  static const char *const bombs[] = {
      "% local t = {}\n% for i = 1, 1e9 do t[i] = {} end\n",
      "% local s = 'x'\n% while true do s = s .. s end\n",
      "% local s = ('x'):rep(1 << 29)\n",
      "% while true do\nint x;\n% end\n",
  };
  render_result result;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bombs); ++i)
    expect_refused(render_template(&result, bombs[i]), FA_NO_MEMORY, "templates|MiB");
  assert_prints("the next render", "a\n", "a\n");
}

/* ---- Variants ------------------------------------------------------------------------------------ */

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
       "/variants/bad.lua:2:|at.row is unknown|at.q and at.k"},
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
       "variants/bad.lua: keep|truth"},
      {"score that returns a truth",
       "return variant { doc = 'x', score = function(s, at) return le(s, 1) end }\n",
       "variants/bad.lua: score|number"},
      {"keep that returns nothing", "return variant { doc = 'x', keep = function(at) end }\n",
       "variants/bad.lua: keep|truth"},
  };
  render_result result;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    overlay_write(&folder, "variants/bad.lua", cases[i].template);
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
  assert_int_equal(names.count, 3);
  assert_string_equal(names.names[0], "ahead");
  assert_string_equal(names.names[1], "causal");
  assert_string_equal(names.names[2], "zebra");
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
                 "'tiger'|ahead causal zebra");
}

/* Where minus signs meet, C reads something else. */
static void expressions_are_spelt_as_c_reads_them(void **state) {
  static const template_case cases[] = {
      {"a double minus", "le(-(-at.k), at.q)", "-(-k_position) <= q_position"},
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
             cases[i].template);
    overlay_write(&folder, "variants/spelt.lua", text);
    expect_ok(render_words(&result, "fwd cpu f32 d64 spelt"));
    snprintf(wanted, sizeof wanted, "if (!(%s))", cases[i].wanted);
    if (!strstr(result.kernel.text, wanted)) {
      const char *got = strstr(result.kernel.text, "if (!(");
      fail_msg("%s: '%.*s', wanted '%s'", cases[i].what, got ? (int)strcspn(got, "\n") : 4,
               got ? got : "none", wanted);
    }
    render_free(&result);
  }
}

/* ---- Overlay folders --------------------------------------------------------------------------- */

static void a_missing_overlay_is_refused(void **state) {
  fa_spec spec = canonical(spec_words);
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
  expect_refused(render_words(&result, spec_words), FA_TEMPLATE, "/mask.lua|Is a directory");
  rmdir(overlay_path(&folder, "mask.lua"));

  char *large = calloc(1, 5 << 20);
  assert_non_null(large);
  memset(large, '\n', 5 << 20);
  overlay_write_bytes(&folder, "mask.lua", large, 5 << 20);
  free(large);
  expect_refused(render_words(&result, spec_words), FA_TEMPLATE, "/mask.lua|larger than 4 MiB");

  overlay_write(&folder, "mask.lua", "return {}");
  chmod(overlay_path(&folder, "mask.lua"), 0);
  chmod(folder.path, 0755);
  if (geteuid() == 0) assert_int_equal(seteuid(65534), 0); /* root reads files of every mode */
  fa_status status = render_words(&result, spec_words);
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

/* ---- Logs of compilers ----------------------------------------------------------------------------- */

static void compiler_logs_are_mapped_to_template_lines(void **state) {
  char *origins[] = {"templates/a.lua:10", "templates/b.lua:7"};
  render_text text = {.text = "x\ny\n", .origins = origins, .lines = 2};
  static const char log[] = "k.c:2: error: no\nother.c:1: error: no\nk.c:3: beyond\nk.c:0: before\n"
                            "k.c:1:5: warning: w\nno position";
  (void)state;
  char *mapped = render_map_log(&text, log, "k.c");
  assert_string_equal(mapped, "templates/b.lua:7: error: no (k.c:2)\nother.c:1: error: no\n"
                              "k.c:3: beyond\nk.c:0: before\n"
                              "templates/a.lua:10:5: warning: w (k.c:1)\nno position");
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
      {"cpu/steps.c.lua", "to->data = from->data;", "  to->none = 0;", "none"},
      {"launch.c.lua", "fagen_plan.h", "int x = \"text\" * 2;", ""},
  };
  char words[256];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    empty_folder(NULL);
    int line = copy_with_line(cases[i].file, cases[i].behind, cases[i].line);
    snprintf(words, sizeof words, "%s/%s:%d: error|%s", folder.path, cases[i].file, line,
             cases[i].words);
    expect_refused(get_kernel(spec_words), FA_COMPILE, words);
  }
}

static void a_plan_must_name_entries_that_exist(void **state) {
  (void)state;
  copy_with_line("cpu/steps.c.lua", "query_tiles, in->heads_q, in->batch, ${tiles.scratch_bytes}",
                 "  out->steps[0].entry = \"none\";");
  expect_refused(get_kernel(spec_words), FA_COMPILE, "none|entry that the kernel lacks");
}

/* A failure is not kept: the same context builds once the file is right. */
static void a_repaired_template_is_read_again(void **state) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *context;
  const fa_kernel *kernel;
  fa_spec spec = canonical(spec_words);
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
#define EMPTY(test) cmocka_unit_test_setup(test, empty_folder)
  const struct CMUnitTest tests[] = {
      EMPTY(templates_print_what_they_say),
      EMPTY(files_include_paste_and_require_each_other),
      EMPTY(every_line_knows_the_template_line_behind_it),
      EMPTY(failures_name_file_and_line),
      EMPTY(the_sandbox_lacks_what_is_unsafe_or_unordered),
      EMPTY(modules_cannot_assign_globals_either),
      EMPTY(modules_that_require_each_other_are_refused),
      EMPTY(faults_in_other_files_name_those),
      EMPTY(bytecode_is_refused),
      EMPTY(endless_loops_are_stopped),
      EMPTY(endless_loops_in_modules_and_variants_are_stopped),
      EMPTY(memory_is_limited),
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
  return cmocka_run_group_tests(tests, begin, end);
}
