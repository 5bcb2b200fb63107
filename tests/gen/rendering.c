/* rendering.c: see rendering.h. */
#include "rendering.h"

#include "gen/spec.h"
#include "support/expect.h"

const char *const rendering_words = "fwd cpu f32 d64", *const rendering_file = "cpu/fwd.c.lua";

overlay folder;

int rendering_begin(void **state) {
  overlay_create(&folder);
  return expect_to_end(state);
}

int rendering_end(void **state) {
  (void)state;
  overlay_remove(&folder);
  return 0;
}

int rendering_empty(void **state) {
  (void)state;
  overlay_remove(&folder);
  overlay_create(&folder);
  return 0;
}

fa_spec canonical(const char *words) {
  fa_spec spec = FA_SPEC_INIT, out = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&out, &spec));
  return out;
}

fa_status render_words(render_result *out, const char *words) {
  fa_spec spec = canonical(words);
  return render_spec(out, &spec, folder.path);
}

fa_status render_template(render_result *out, const char *text) {
  overlay_write(&folder, rendering_file, text);
  return render_words(out, rendering_words);
}
