/* test_golden.c: emitted files, byte for byte as they stand in golden/.
   When a template changes on purpose, write them anew and read the difference:
     FAGEN_RENEW_GOLDEN=1 build/tests/test_golden && git diff tests/gen/golden */
#include "support/expect.h"
#include "support/overlay.h"

#include "gen/render.h"
#include "gen/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compare_or_renew(const char *name, const char *ending, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/tests/gen/golden/%s%s", FAGEN_SOURCE_DIR, name, ending);
  if (getenv("FAGEN_RENEW_GOLDEN")) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return;
  }
  char *wanted = read_whole_file(path);
  expect_same_text(path, text, wanted);
  free(wanted);
}

static void check_spec(const char *words) {
  fa_spec spec = FA_SPEC_INIT, canonical = FA_SPEC_INIT;
  render_result result;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&canonical, &spec));
  expect_ok(render_spec(&result, &canonical, NULL));
  compare_or_renew(result.name, ".c", result.kernel.text);
  compare_or_renew(result.name, "_launch.c", result.launch.text);
  render_free(&result);
}

static void forward_is_as_it_was(void **state) {
  (void)state;
  check_spec("fwd cpu f32 d64");
}

static void backward_is_as_it_was(void **state) {
  (void)state;
  check_spec("bwd cpu bf16 d72 gqa2 causal det");
}

static void preprocess_is_as_it_was(void **state) {
  (void)state;
  check_spec("pre cpu f16 d128 v64");
}

static void variants_are_as_they_were(void **state) {
  (void)state;
  check_spec("fwd cpu f32 d64 softcap window");
  check_spec("bwd cpu bf16 d40 gqa2 causal document bias sink");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forward_is_as_it_was),
      cmocka_unit_test(backward_is_as_it_was),
      cmocka_unit_test(preprocess_is_as_it_was),
      cmocka_unit_test(variants_are_as_they_were),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
