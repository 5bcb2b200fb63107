/* test_engine.c: the template language and its sandbox, through overlay folders: what templates
   print, what they cannot do, and that every failure names the file and the line. */
#include "rendering.h"
#include "support/expect.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void assert_prints(const char *what, const char *text, const char *wanted) {
  render_result result;
  fa_status status = render_template(&result, text);
  if (status) fail_msg("%s: %s: %s", what, fa_status_name(status), fa_error_message());
  expect_same_text(what, result.kernel.text, wanted);
  render_free(&result);
}

/* words begin with the file and line that the message must name. */
static void assert_fails(const char *what, const char *text, const char *words) {
  render_result result;
  fa_status status = render_template(&result, text);
  if (status != FA_TEMPLATE)
    fail_msg("%s: %s (%s)", what, fa_status_name(status), status ? fa_error_message() : "");
  assert_null(result.kernel.text);
  expect_words(what, fa_error_message(), words);
}

/* ---- What templates print ------------------------------------------------------------------- */

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
    assert_prints(printing[i].what, printing[i].text, printing[i].wanted);
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

/* ---- What templates may not do -------------------------------------------------------------- */

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
    assert_fails(refusing[i].what, refusing[i].text, refusing[i].wanted);
}

/* What would make a text depend on the machine, the run or the file system is not there. */
static void the_sandbox_lacks_what_is_unsafe_or_unordered(void **state) {
  static const char *const names[] = {
      "io",     "os",       "debug", "package",    "coroutine",      "utf8",   "load",    "dofile",
      "next",   "loadfile", "pairs", "print",      "pcall",          "xpcall", "rawset",  "rawlen",
      "rawget", "_G",       "warn",  "loadstring", "collectgarbage", "read",   "position"};
  static const char *const members[] = {"math.random", "math.randomseed", "string.dump",
                                        "('').dump",   "table.move",      "string.unpack"};
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

/* ---- Limits --------------------------------------------------------------------------------- */

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
    assert_fails(loops[i].what, loops[i].text, loops[i].wanted);
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

/* What takes long within one instruction, where nothing can stop it. */
static void long_instructions_are_refused(void **state) {
  static const template_case cases[] = {
      {"a pattern", "% local s = ('x'):rep(10000)\n% s:find('.-.-.-b')\n",
       "/cpu/fwd.c.lua:2: pattern '.-.-.-b' might take"},
      {"a pattern in a loop over matches", "% for m in ('x'):rep(1e5):gmatch('.-.-b') do end\n",
       "fwd.c.lua:1: pattern '.-.-b'"},
      {"a replacement", "% local s = ('x'):rep(1e5)\n% s = s:gsub('.*%w*b', '')\n", ":2: pattern"},
      {"a pattern with a set", "% string.match(('x'):rep(1e5), '[^]*]-[*]-b')\n", ":1: pattern"},
      {"a pattern that counts pairs", "% string.match(('('):rep(1e5), '%b()')\n", ":1: pattern"},
      {"a plain search", "% local s = ('x'):rep(1e6)\n% s:find(s .. 'b', 1, true)\n",
       ":2: pattern"},
      {"a false length",
       "% local t = setmetatable({}, { __len = function() return 1 << 52 end, __newindex = {} })\n"
       "% table.insert(t, 1, 1)\n",
       ":2: a table whose __len is not its length"},
      {"many values", "% local a = { table.unpack({}, 1, 1e5) }\n", ":1: unpack: more than 250"},
      {"many bytes", "% local a = { ('x'):rep(1e5):byte(1, -1) }\n", ":1: byte: more than 250"},
      {"a finaliser", "% setmetatable({}, { __gc = function() end })\n", ":1: __gc is not run"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i)
    assert_fails(cases[i].what, cases[i].text, cases[i].wanted);
  assert_prints("patterns", "${('a1, b22'):gsub('(%a)(%d+)', '%2%1')}\n", "1a, 22b\n");
  assert_prints("a long line",
                "% local s = (' '):rep(500) .. 'x'\n"
                "${s:match('^%s*(.-)$')}\n${#s:gsub('%s+$', '')}\n",
                "x\n501\n");
}

/* Few instructions, each as long as is allowed; and none of them can swallow the end. */
static void the_time_is_limited(void **state) {
  static const template_case cases[] = {
      {"slow searches", "% local s = ('x'):rep(10000)\n% while true do s:find('.-b') end\n",
       "/cpu/fwd.c.lua:2: stopped after|seconds"},
      {"a loop that begins when it is stopped",
       "% local function f()\n%   local x <close> = setmetatable({}, { __close = function()\n"
       "%     while true do end\n%   end })\n%   error('x')\n% end\n% f()\n",
       "/cpu/fwd.c.lua:|stopped after|endless loop"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i)
    assert_fails(cases[i].what, cases[i].text, cases[i].wanted);
}

/* The lines are long: short ones take, under sanitizers, nearly as long as a template may. */
static void memory_is_limited(void **state) {
  static const char *const bombs[] = {
      "% local t = {}\n% for i = 1, 1e9 do t[i] = {} end\n",
      "% local s = 'x'\n% while true do s = s .. s end\n",
      "% local s = ('x'):rep(1 << 29)\n",
      "% local long = ('x'):rep(1000000)\n% while true do\nint ${long};\n% end\n",
  };
  render_result result;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bombs); ++i)
    expect_refused(render_template(&result, bombs[i]), FA_NO_MEMORY, "templates|MiB");
  assert_prints("the next render", "a\n", "a\n");
}

int main(void) {
#define EMPTY(test) cmocka_unit_test_setup(test, rendering_empty)
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
      EMPTY(long_instructions_are_refused),
      EMPTY(the_time_is_limited),
      EMPTY(memory_is_limited),
  };
  return cmocka_run_group_tests(tests, rendering_begin, rendering_end);
}
