/* test_nvrtc.c: compiling emitted kernels with the real NVRTC, on a machine without a GPU. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/spec.h"
#include "runtime/nvrtc_library.h"
#include "support/expect.h"

#include "child_build.h"
#include "serialised_source.h"

static const nvrtc *library;

typedef struct compiled {
  fa_spec spec;
  render_result text;
  cubin code;
} compiled;

static void render(compiled *out, const char *words) {
  fa_spec spec = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&out->spec, &spec));
  expect_ok(render_spec(&out->text, &out->spec, PROBE_OVERLAY));
}

static void compile(compiled *out, const char *words) {
  render(out, words);
  expect_ok(nvrtc_compile(&out->code, library, &out->text, &out->spec));
}

static void forget(compiled *of) {
  render_free(&of->text);
  cubin_free(&of->code);
}

static const cubin_entry *entry_named(const compiled *in, const char *ending) {
  char name[CUBIN_NAME];
  snprintf(name, sizeof name, "%s%s", in->text.name, ending);
  for (int i = 0; i < in->code.num_entries; ++i)
    if (!strcmp(in->code.entries[i].name, name)) return &in->code.entries[i];
  fail_msg("%s: no such entry", name);
  return NULL;
}

static void every_arch_compiles(void **state) {
  (void)state;
  static const char *const words[] = {
      "bwd sm80 f16 d64",          "bwd sm80 f16 d64 cc86",          "bwd sm80 f16 d64 cc89",
      "bwd sm80 f16 d64 cc90",     "bwd sm80 bf16 d64 cc100",        "bwd sm80 bf16 d64 cc120",
      "fwd sm80 f16 d8 probe_map", "fwd sm90 bf16 d64 probe_cluster"};
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    compiled c;
    compile(&c, words[i]);
    const cubin_entry *entry = entry_named(&c, "_main");
    if (entry->registers < 8 || entry->registers > 255 || entry->spill_bytes || entry->shared_bytes)
      fail_msg("%s: %d registers, %d spilled, %d shared", words[i], entry->registers,
               entry->spill_bytes, entry->shared_bytes);
    forget(&c);
  }
}

static void the_report_gives_registers_spills_and_shared_memory(void **state) {
  (void)state;
  compiled c;
  compile(&c, "fwd sm80 bf16 d64 probe_spill");
  assert_int_equal(c.code.num_entries, 2);
  const cubin_entry *spills = entry_named(&c, "_spill"), *other = entry_named(&c, "_main");
  assert_int_equal(spills->registers, 64); /* 65536 by 1024 threads */
  assert_int_equal(spills->shared_bytes, 400);
  assert_in_range(spills->spill_bytes, 32, 4096);
  assert_int_equal(other->spill_bytes, 0);
  assert_int_equal(other->shared_bytes, 0);
  assert_in_range(other->registers, 8, 63);
  forget(&c);
}

static void a_serialised_product_is_reported(void **state) {
  (void)state;
  static const char source[] =
      SERIALISED_SOURCE "extern \"C\" __global__ void other(float *out) { *out = 0; }\n";
  compiled c;
  render(&c, "fwd sm90 bf16 d64 probe_cluster");
  free(c.text.kernel.text);
  c.text.kernel.text = strdup(source);
  expect_ok(nvrtc_compile(&c.code, library, &c.text, &c.spec));
  assert_int_equal(c.code.num_entries, 2);
  for (int i = 0; i < 2; ++i) {
    const cubin_entry *entry = &c.code.entries[i];
    if (strcmp(entry->name, "serialised"))
      assert_int_equal(entry->serialised, 0);
    else
      assert_in_range(entry->serialised, 7500, 7599);
  }
  forget(&c);
}

static void entries_survive_their_text(void **state) {
  (void)state;
  compiled c;
  cubin read = {.image = NULL};
  compile(&c, "fwd sm80 bf16 d64 probe_spill");
  char *text = cubin_print_entries(&c.code);
  assert_true(cubin_parse_entries(&read, text));
  assert_int_equal(read.num_entries, c.code.num_entries);
  for (int i = 0; i < read.num_entries; ++i) {
    const cubin_entry *a = &read.entries[i], *b = &c.code.entries[i];
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->registers, b->registers);
    assert_int_equal(a->shared_bytes, b->shared_bytes);
    assert_int_equal(a->spill_bytes, b->spill_bytes);
    assert_int_equal(a->serialised, b->serialised);
  }
  text[strlen(text) / 2] = '\0';
  assert_false(cubin_parse_entries(&read, text));
  assert_false(cubin_parse_entries(&read, ""));
  free(text);
  forget(&c);
}

/* The line of a file that holds `text`, counted from 1. */
static int line_of(const char *path, const char *text) {
  char line[512];
  int number = 0, found = 0;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (!found && fgets(line, sizeof line, file)) {
    ++number;
    if (strstr(line, text)) found = number;
  }
  fclose(file);
  return found;
}

static void an_error_names_the_template_line(void **state) {
  (void)state;
  compiled c;
  char place[512];
  snprintf(place, sizeof place, "%s/sm80/fwd.cu.lua", PROBE_OVERLAY);
  int line = line_of(place, "undeclared = 1;");
  snprintf(place, sizeof place, "sm80/fwd.cu.lua:%d: error|is undefined", line);
  render(&c, "fwd sm80 bf16 d64 probe_error");
  expect_refused(nvrtc_compile(&c.code, library, &c.text, &c.spec), FA_COMPILE, place);
  assert_null(c.code.image);
  forget(&c);
}

static void an_unknown_arch_is_refused_with_those_there_are(void **state) {
  (void)state;
  compiled c;
  render(&c, "fwd sm80 bf16 d64");
  c.spec.arch = 999;
  expect_refused(nvrtc_compile(&c.code, library, &c.text, &c.spec), FA_UNSUPPORTED,
                 "arch: cc999|NVRTC|compiles for| 80| 90");
  forget(&c);
}

static void a_missing_library_is_named(void **state) {
  (void)state;
  const nvrtc *none;
  expect_refused(nvrtc_open(&none, "/nonexistent/libnvrtc.so"), FA_NO_NVRTC,
                 "/nonexistent/libnvrtc.so|FA_NVRTC");
  assert_null(none);
  expect_refused(nvrtc_open(&none, "libm.so.6"), FA_NO_NVRTC, "nvrtcVersion");
}

/* The folder of a library that this process has open; "" when it has none of the name. */
static void folder_of(char *out, size_t bytes, const char *name) {
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  *out = '\0';
  while (maps && !*out && fgets(line, sizeof line, maps)) {
    char *path = strchr(line, '/'), *found = path ? strstr(path, name) : NULL;
    if (found) snprintf(out, bytes, "%.*s", (int)(found - path), path);
  }
  if (maps) fclose(maps);
}

/* Runs this program again with a loader that knows no folder but the C library's and cmocka's, as
   where the toolkit is not among the system's libraries. */
static void builtins_are_found_beside_the_library(void **state) {
  (void)state;
  char libc[1024], cmocka[1024], loader[1024], folders[2100], program[1024], command[8192];
  folder_of(libc, sizeof libc, "libc.so");
  folder_of(cmocka, sizeof cmocka, "libcmocka.so");
  folder_of(loader, sizeof loader, "ld-linux-");
  if (!*libc || !*cmocka || !*loader) {
    printf("SKIP: this C library is not the one that the test knows\n");
    skip();
  }
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  assert_true(length > 0);
  program[length] = '\0';
  snprintf(folders, sizeof folders, "%s:%s", libc, cmocka);
  snprintf(command, sizeof command,
           "exec %sld-linux-*.so.* --inhibit-cache --library-path '%s' '%s' '%s' >/dev/null",
           loader, folders, program, library->path);
  int code = system(command);
  if (code) fail_msg("exit code %#x of: %s", (unsigned)code, command);
}

static int compile_with(const char *path) {
  compiled c;
  const nvrtc *named;
  fa_spec spec = FA_SPEC_INIT;
  if (nvrtc_open(&named, path) || fa_spec_parse(&spec, "fwd sm80 bf16 d64") ||
      spec_canonicalise(&c.spec, &spec) || render_spec(&c.text, &c.spec, PROBE_OVERLAY) ||
      nvrtc_compile(&c.code, named, &c.text, &c.spec)) {
    fprintf(stderr, "%s\n", fa_error_message());
    return 1;
  }
  forget(&c);
  return 0;
}

static void missing_builtins_are_named(void **state) {
  (void)state;
  const nvrtc *fake;
  compiled c;
  expect_ok(nvrtc_open(&fake, FAKE_NVRTC));
  render(&c, "fwd sm80 bf16 d64");
  setenv("FAKE_NVRTC_ERROR", "7", 1);
  expect_refused(nvrtc_compile(&c.code, fake, &c.text, &c.spec), FA_NO_NVRTC,
                 "libnvrtc-builtins.so.13.0");
  unsetenv("FAKE_NVRTC_ERROR");
  forget(&c);
}

static void a_compiler_without_output_is_an_error(void **state) {
  (void)state;
  const nvrtc *fake;
  compiled c;
  expect_ok(nvrtc_open(&fake, FAKE_NVRTC));
  render(&c, "fwd sm80 bf16 d64");
  setenv("FAKE_NVRTC_EMPTY", "1", 1);
  expect_refused(nvrtc_compile(&c.code, fake, &c.text, &c.spec), FA_COMPILE, "no binary");
  unsetenv("FAKE_NVRTC_EMPTY");
  forget(&c);
}

static void a_compiler_without_a_cache_of_its_own_is_asked_again(void **state) {
  (void)state;
  const nvrtc *fake;
  compiled c;
  expect_ok(nvrtc_open(&fake, FAKE_NVRTC));
  render(&c, "fwd sm80 bf16 d64");
  setenv("FAKE_NVRTC_OLD", "1", 1);
  expect_ok(nvrtc_compile(&c.code, fake, &c.text, &c.spec));
  unsetenv("FAKE_NVRTC_OLD");
  assert_true(c.code.num_entries > 0);
  forget(&c);
}

/* Where there is a driver, NVRTC has a cache of its own, whose binaries come without a report. */
static void the_second_compilation_reports_as_much_as_the_first(void **state) {
  (void)state;
  compiled first, second;
  compile(&first, "fwd sm80 bf16 d64");
  compile(&second, "fwd sm80 bf16 d64");
  assert_in_range(first.code.entries[0].registers, 8, 255);
  assert_memory_equal(first.code.entries, second.code.entries, sizeof first.code.entries);
  forget(&first);
  forget(&second);
}

static void code_cut_short_has_all_its_entries_or_is_refused(void **state) {
  (void)state;
  compiled c;
  compile(&c, "fwd sm80 bf16 d64");
  size_t whole = c.code.bytes;
  for (size_t bytes = 0; bytes < whole; bytes += 1 + whole / 200) {
    /* A copy of that size, so that a sanitizer sees what is read behind it. */
    cubin cut = {.image = malloc(bytes + !bytes), .bytes = bytes};
    memcpy(cut.image, c.code.image, bytes);
    fa_status status = cubin_read_entries(&cut, "");
    assert_int_equal(status, bytes > whole / 2 && !status ? FA_OK : FA_COMPILE);
    if (!status) assert_int_equal(cut.num_entries, c.code.num_entries);
    cubin_free(&cut);
  }
  forget(&c);
}

/* ---- The same everywhere --------------------------------------------------------------------- */

static void two_processes_make_the_same_code(void **state) {
  (void)state;
  const child_request request = {
      .words = "bwd sm80 bf16 d64 cc90", .cache = "", .overlay = PROBE_OVERLAY};
  child_outcome a = child_build(&request), b = child_build(&request);
  assert_int_equal(a.status, FA_OK);
  assert_int_equal(b.status, FA_OK);
  assert_memory_equal(&a.code, &b.code, sizeof a.code);
  assert_memory_equal(&a.source, &b.source, sizeof a.source);
}

enum { THREADS = 8 };

static void *compile_in_thread(void *to) {
  compiled *c = to;
  /* No assertion outside the main thread: what went wrong is seen by the code's absence. */
  if (nvrtc_compile(&c->code, library, &c->text, &c->spec)) c->code.image = NULL;
  return NULL;
}

static void threads_compile_at_the_same_time(void **state) {
  (void)state;
  static compiled c[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    char words[64];
    snprintf(words, sizeof words, "fwd sm80 bf16 d%d", i % 4 * 8 + 8);
    render(&c[i], words);
  }
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, compile_in_thread, &c[i]);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; ++i) {
    const cubin *mine = &c[i].code, *twin = &c[(i + 4) % THREADS].code;
    assert_non_null(mine->image);
    assert_int_equal(mine->bytes, twin->bytes);
    assert_memory_equal(mine->image, twin->image, mine->bytes);
  }
  for (int i = 0; i < THREADS; ++i) forget(&c[i]);
}

/* Where a toolkit is, NVRTC has to be: its absence is a fault and no reason to skip. */
static int toolkit_is_here(void) {
  return getenv("CUDA_HOME") || getenv("CUDA_PATH") || !access("/usr/local/cuda", F_OK);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_arch_compiles),
      cmocka_unit_test(the_report_gives_registers_spills_and_shared_memory),
      cmocka_unit_test(a_serialised_product_is_reported),
      cmocka_unit_test(entries_survive_their_text),
      cmocka_unit_test(an_error_names_the_template_line),
      cmocka_unit_test(an_unknown_arch_is_refused_with_those_there_are),
      cmocka_unit_test(a_missing_library_is_named),
      cmocka_unit_test(builtins_are_found_beside_the_library),
      cmocka_unit_test(missing_builtins_are_named),
      cmocka_unit_test(a_compiler_without_output_is_an_error),
      cmocka_unit_test(a_compiler_without_a_cache_of_its_own_is_asked_again),
      cmocka_unit_test(the_second_compilation_reports_as_much_as_the_first),
      cmocka_unit_test(code_cut_short_has_all_its_entries_or_is_refused),
      cmocka_unit_test(two_processes_make_the_same_code),
      cmocka_unit_test(threads_compile_at_the_same_time),
  };
  if (argc > 1) return compile_with(argv[1]);
  if (nvrtc_open(&library, NULL)) {
    printf("%s test_nvrtc: %s\n", toolkit_is_here() ? "FAILED" : "SKIP", fa_error_message());
    return toolkit_is_here() ? 1 : 77;
  }
  printf("NVRTC %s\n", nvrtc_identity(library));
  return cmocka_run_group_tests_name("nvrtc", tests, expect_to_end, NULL);
}
