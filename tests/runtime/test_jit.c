/* test_jit.c: emitted C to machine code in memory: it runs, knows nothing but itself, no page is
   ever writable and executable at once, and errors name the template's line. */
#include "support/expect.h"
#include "support/comma_locale.h"

#include "runtime/jit.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LINES = 16 };

/* A text whose line n came from "FILE:10n". */
typedef struct source {
  render_text text;
  char *origins[MOST_LINES];
  char names[MOST_LINES][64];
} source;

static const render_text *text_of(source *s, const char *file, const char *code) {
  s->text.text = (char *)code;
  s->text.lines = 0;
  for (const char *at = code; *at && s->text.lines < MOST_LINES; ++at)
    s->text.lines += at[0] == '\n' || !at[1];
  for (size_t i = 0; i < s->text.lines; ++i) {
    snprintf(s->names[i], sizeof s->names[i], "%s:%zu", file, 10 * (i + 1));
    s->origins[i] = s->names[i];
  }
  s->text.origins = s->origins;
  return &s->text;
}

static fa_status compile(jit **out, const char *code) {
  source s;
  const jit_unit unit = {"one.c", text_of(&s, "templates/one.lua", code)};
  return jit_compile(out, &unit, 1);
}

typedef int (*int_function)(int);

/* Compiles code that defines int f(int), and leaves it sealed. */
static int_function compiled(jit **out, const char *code) {
  expect_ok(compile(out, code));
  int_function f = (int_function)jit_symbol(*out, "f");
  assert_non_null(f);
  assert_null(jit_symbol(*out, "no_such_function"));
  jit_seal(*out);
  return f;
}

static int look_at_pages(char protection[4], const void *address);

/* ---- What runs ------------------------------------------------------------------------------ */

static void code_runs(void **state) {
  jit *code;
  (void)state;
  int_function f = compiled(&code, "static const int squares[] = {0, 1, 4, 9};\n"
                                   "static const char *const text = \"abc\";\n"
                                   "int f(int x) { return squares[x] + text[x]; }\n");
  assert_int_equal(f(2), 4 + 'c');
  jit_free(code);
  jit_free(NULL);
}

/* Copies of structs become calls of memcpy and its kin. */
static void structs_are_copied(void **state) {
  jit *code;
  (void)state;
  int_function f = compiled(&code, "typedef struct s { int v[100]; } s;\n"
                                   "static s twice(s a) { s b = a; b.v[99] *= 2; return b; }\n"
                                   "int f(int x) { s a = {{0}}; a.v[99] = x;\n"
                                   "  return twice(a).v[99] + twice(a).v[0]; }\n");
  assert_int_equal(f(21), 42);
  jit_free(code);
}

static void units_see_each_other(void **state) {
  source one, two;
  const jit_unit units[] = {{"one.c", text_of(&one, "one.lua", "int g(int x) { return x + 1; }\n")},
                            {"two.c", text_of(&two, "two.lua",
                                              "int g(int x);\n"
                                              "int f(int x) { return 2 * g(x); }\n")}};
  jit *code;
  (void)state;
  expect_ok(jit_compile(&code, units, 2));
  int_function f = (int_function)jit_symbol(code, "f"), g = (int_function)jit_symbol(code, "g");
  jit_seal(code);
  assert_int_equal(f(3), 8);
  assert_int_equal(g(3), 4);
  jit_free(code);
}

static void code_outlives_its_neighbours(void **state) {
  enum { COUNT = 20 };
  jit *codes[COUNT];
  int_function f[COUNT];
  char text[64];
  (void)state;
  for (int i = 0; i < COUNT; ++i) {
    snprintf(text, sizeof text, "int f(int x) { return x + %d; }\n", i);
    f[i] = compiled(&codes[i], text);
  }
  for (int i = 0; i < COUNT; i += 2) jit_free(codes[i]);
  jit *fresh;
  int_function g = compiled(&fresh, "int f(int x) { return x; }\n");
  for (int i = 1; i < COUNT; i += 2) assert_int_equal(f[i](100), 100 + i);
  assert_int_equal(g(5), 5);
  for (int i = 1; i < COUNT; i += 2) jit_free(codes[i]);
  jit_free(fresh);
}

/* A user's template may count, or remember: its data has pages of its own. */
static void static_variables_work(void **state) {
  jit *code;
  char of_data[4], of_code[4];
  (void)state;
  expect_ok(compile(&code, "static int sum, *where = &sum;\nint first = 40;\n"
                           "static const int step[1025] = {[1024] = 2};\n"
                           "void *address(void) { return where; }\n"
                           "int f(int x) { static int calls; ++calls; *where += x;\n"
                           "  return first + sum + calls * step[1024]; }\n"));
  int_function f = (int_function)jit_symbol(code, "f");
  void *(*address)(void) = (void *(*)(void))jit_symbol(code, "address");
  jit_seal(code);
  assert_int_equal(f(1), 40 + 1 + 2);
  assert_int_equal(f(10), 40 + 11 + 4);
  assert_false(look_at_pages(of_code, (const void *)(uintptr_t)f));
  assert_false(look_at_pages(of_data, address()));
  assert_string_equal(of_code, "r-x");
  assert_string_equal(of_data, "rw-");
  jit_free(code);
}

static void *compile_often(void *argument) {
  int number = *(int *)argument;
  char text[64];
  *(int *)argument = 0;
  for (int i = 0; i < 10; ++i) {
    jit *code = NULL;
    snprintf(text, sizeof text, "int f(int x) { return x + %d; }\n", number + i);
    if (compile(&code, text)) return NULL;
    int_function f = (int_function)jit_symbol(code, "f");
    jit_seal(code);
    *(int *)argument += f(1) == 1 + number + i;
    jit_free(code);
  }
  return NULL;
}

static void threads_compile_at_the_same_time(void **state) {
  pthread_t threads[8];
  int numbers[COUNT_OF(threads)];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(threads); ++i) {
    numbers[i] = (int)(100 * i);
    assert_int_equal(pthread_create(&threads[i], NULL, compile_often, &numbers[i]), 0);
  }
  for (size_t i = 0; i < COUNT_OF(threads); ++i) {
    pthread_join(threads[i], NULL);
    assert_int_equal(numbers[i], 10);
  }
}

/* ---- Pages ---------------------------------------------------------------------------------- */

/* Whether a page of this process is writable and executable; copies the protection of the page at
   `address`, such as "r-x". Asserts nothing: the caller may hold libtcc's lock. */
static int look_at_pages(char protection[4], const void *address) {
  char line[512], mode[8] = "";
  FILE *maps = fopen("/proc/self/maps", "r");
  unsigned long from, to;
  int both = 0;
  memset(protection, 0, 4);
  while (maps && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3) continue;
    if (mode[1] == 'w' && mode[2] == 'x') {
      print_error("writable and executable: %s", line);
      both = 1;
    }
    if ((unsigned long)(uintptr_t)address >= from && (unsigned long)(uintptr_t)address < to)
      memcpy(protection, mode, 3);
  }
  if (maps) fclose(maps);
  return both;
}

static void no_page_is_writable_and_executable(void **state) {
  char before[4], after[4], other[4];
  jit *codes[3];
  (void)state;
  assert_false(look_at_pages(other, NULL));
  for (size_t i = 0; i < COUNT_OF(codes); ++i) {
    expect_ok(
        compile(&codes[i], "static const int t[] = {7, 8};\nint f(int x) { return t[x]; }\n"));
    int_function f = (int_function)jit_symbol(codes[i], "f");
    int both = look_at_pages(before, (const void *)(uintptr_t)f);
    jit_seal(codes[i]);
    assert_false(both);
    assert_false(look_at_pages(after, (const void *)(uintptr_t)f));
    assert_string_equal(before, "r-x");
    assert_string_equal(after, "r-x");
    assert_int_equal(f(1), 8);
  }
  void *heap = malloc(1 << 20);
  assert_false(look_at_pages(other, heap));
  assert_string_equal(other, "rw-");
  free(heap);
  for (size_t i = 0; i < COUNT_OF(codes); ++i) jit_free(codes[i]);
  assert_false(look_at_pages(other, NULL));
}

/* Under memory-deny-write-execute the kernel itself refuses pages that gain execution. */
static int run_denied(void) {
  enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };
  jit *code = NULL;
  if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)) return 77;
  if (compile(&code, "int f(int x) { return x + 1; }\n")) {
    fprintf(stderr, "under MDWE: %s\n", fa_error_message());
    return 1;
  }
  int_function f = (int_function)jit_symbol(code, "f");
  jit_seal(code);
  int right = f(1) == 2;
  jit_free(code);
  return !right;
}

static void code_runs_where_the_kernel_denies_write_execute(void **state) {
  int status = -1;
  (void)state;
  pid_t child = fork();
  if (child == 0) _exit(run_denied());
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) skip(); /* this kernel has no PR_SET_MDWE (Linux 6.3) */
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Errors --------------------------------------------------------------------------------- */

static void errors_name_the_template_line(void **state) {
  static const struct error_case {
    const char *code, *words;
  } cases[] = {
      {"int f(int x) {\n  return x\n    + y;\n}\n", "templates/one.lua:30: error|'y'|(one.c:3)"},
      {"int f(int x) { return g(x); }\n", "templates/one.lua:10:|'g'"},
      {"\n#include <stdio.h>\nint f(int x) { return x; }\n", "templates/one.lua:20:|stdio.h"},
      {"\n#include \"/etc/passwd\"\nint f(int x) { return x; }\n", "templates/one.lua:20:|passwd"},
      {"int f(int x) { return x; }\nint f(int x) { return x; }\n", "templates/one.lua:20:|'f'"},
      {"int f(int x) { return \"text\"; }\n", "templates/one.lua:10:"},
      {"\n\n#error no such dimension\n", "templates/one.lua:30:|no such dimension"},
      {"int f(int x) { return x; }}\n", "templates/one.lua:10:"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    jit *code = (jit *)&state;
    fa_status status = compile(&code, cases[i].code);
    if (status != FA_COMPILE) fail_msg("'%s': %s", cases[i].code, fa_status_name(status));
    assert_null(code);
    expect_words(cases[i].code, fa_error_message(), cases[i].words);
  }
}

static void errors_name_the_unit(void **state) {
  source one, two;
  const jit_unit units[] = {{"one.c", text_of(&one, "one.lua", "int g(int x) { return x; }\n")},
                            {"two.c", text_of(&two, "two.lua", "\nint f(int x) { return z; }\n")}};
  jit *code;
  (void)state;
  expect_refused(jit_compile(&code, units, 2), FA_COMPILE, "two.lua:20: error|'z'|(two.c:2)");
  assert_null(code);
}

/* Not even the C library can be reached. */
static void code_links_to_nothing(void **state) {
  static const char *const names[] = {"puts", "malloc", "exp", "fa_version", "mprotect"};
  char text[128];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(names); ++i) {
    jit *code;
    snprintf(text, sizeof text, "extern int %s();\nint f(int x) { return %s(x); }\n", names[i],
             names[i]);
    expect_refused(compile(&code, text), FA_COMPILE, "undefined symbol");
    expect_words(names[i], fa_error_message(), names[i]);
    assert_null(code);
  }
}

static void compiling_works_after_errors(void **state) {
  jit *code;
  (void)state;
  for (int i = 0; i < 50; ++i)
    expect_refused(compile(&code, "int f(int x) { return y; }\n"), FA_COMPILE, "'y'");
  assert_int_equal(compiled(&code, "int f(int x) { return x; }\n")(9), 9);
  jit_free(code);
}

/* ---- Locale --------------------------------------------------------------------------------- */

static void a_decimal_comma_changes_no_constant(void **state) {
  overlay folder;
  jit *code = NULL;
  (void)state;
  overlay_create(&folder);
  int set = comma_locale_set(&folder);
  int value = set ? compiled(&code, "int f(int x) { return x * 0.5f; }\n")(8) : 0;
  setlocale(LC_ALL, "C");
  overlay_remove(&folder);
  jit_free(code);
  if (!set) skip();
  assert_int_equal(value, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(code_runs),
      cmocka_unit_test(structs_are_copied),
      cmocka_unit_test(units_see_each_other),
      cmocka_unit_test(static_variables_work),
      cmocka_unit_test(code_outlives_its_neighbours),
      cmocka_unit_test(threads_compile_at_the_same_time),
      cmocka_unit_test(no_page_is_writable_and_executable),
      cmocka_unit_test(code_runs_where_the_kernel_denies_write_execute),
      cmocka_unit_test(errors_name_the_template_line),
      cmocka_unit_test(errors_name_the_unit),
      cmocka_unit_test(code_links_to_nothing),
      cmocka_unit_test(compiling_works_after_errors),
      cmocka_unit_test(a_decimal_comma_changes_no_constant),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
