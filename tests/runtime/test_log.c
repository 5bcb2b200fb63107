/* test_log.c: what is told of the library's work, at each level, and to whom. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cache.h"
#include "runtime/child_build.h"
#include "support/expect.h"
#include "support/overlay.h"

/* The lines of one test, each with its level before it. */
typedef struct lines {
  char text[8192];
  size_t used;
} lines;

static void note(void *to, int level, const char *line) {
  lines *all = to;
  assert_null(strchr(line, '\n'));
  int count = snprintf(all->text + all->used, sizeof all->text - all->used, "%d %s\n", level, line);
  all->used += (size_t)count;
  assert_true(all->used < sizeof all->text);
}

static void build_on_cpu(lines *told, const char *level, const char *words, fa_status wanted) {
  fa_options options = FA_OPTIONS_INIT;
  fa_spec spec = FA_SPEC_INIT;
  fa_context *context;
  const fa_kernel *kernel;
  *told = (lines){.used = 0};
  options.backend = FA_CPU;
  options.threads = 2;
  options.log = level;
  options.log_function = note;
  options.log_user = told;
  expect_ok(fa_context_create(&context, &options));
  expect_ok(fa_spec_parse(&spec, words));
  assert_int_equal(fa_get_kernel(&kernel, context, &spec), wanted);
  assert_int_equal(fa_get_kernel(&kernel, context, &spec), wanted);
  fa_context_destroy(context);
}

static void each_level_has_those_before_it(void **state) {
  lines told;
  (void)state;
  build_on_cpu(&told, "off", "fwd cpu f32 d8", FA_OK);
  assert_string_equal(told.text, "");
  build_on_cpu(&told, "warn", "fwd cpu f32 d8", FA_OK);
  assert_string_equal(told.text, "");
  build_on_cpu(&told, "info", "fwd cpu f32 d8", FA_OK);
  expect_words("info", told.text,
               "2 opened the processor: 2 threads|2 built fa_fwd_cpu_f32_d8: |ms to render");
  assert_null(strstr(told.text, "in memory"));
  build_on_cpu(&told, "debug", "fwd cpu f32 d8", FA_OK);
  expect_words("debug", told.text,
               "2 opened|3 fa_fwd_cpu_f32_d8 is not in memory\n|2 built fa_fwd");
  char *second = strstr(strstr(told.text, "in memory") + 1, "in memory");
  assert_null(second); /* the second call finds it, and says nothing */
}

static void failures_are_told_with_their_reason(void **state) {
  lines told;
  (void)state;
  build_on_cpu(&told, "info", "fwd cpu f32 d8 no_such_variant", FA_INVALID);
  expect_words("info", told.text,
               "2 fa_fwd_cpu_f32_d8_no__such__variant: FA_INVALID: |'no_such_variant'");
}

static void the_cache_tells_what_it_looks_up_keeps_and_removes(void **state) {
  lines told = {.used = 0};
  overlay folder;
  cache_entry entry;
  const cache_section section = {"text", "abc", 3};
  (void)state;
  overlay_create(&folder);
  cache *kept = cache_open(folder.path, (log_sink){LOG_DEBUG, note, &told});
  assert_false(cache_read(&entry, kept, "key"));
  expect_words("absent", told.text, "3 cache entry |.entry is not there\n");
  cache_write(kept, "key", &section, 1);
  expect_words("written", told.text, ".entry is written, ");
  assert_true(cache_read(&entry, kept, "key"));
  cache_entry_free(&entry);
  expect_words("found", told.text, ".entry is read\n");
  assert_true(cache_prune(kept, 0) > 0);
  expect_words("evicted", told.text, "2 removed |.entry: least lately used\n");
  cache_close(kept);
  overlay_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_level_has_those_before_it),
      cmocka_unit_test(failures_are_told_with_their_reason),
      cmocka_unit_test(the_cache_tells_what_it_looks_up_keeps_and_removes),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
