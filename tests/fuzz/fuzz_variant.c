/* fuzz_variant.c: variant files: their expressions, derivatives and tile classes, in both passes. */
#include "fuzz_files.h"
#include "gen/render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  const char *overlay = fuzz_overlay("variants/fuzz.lua", data, bytes);
  char *doc = NULL;
  if (!render_variant_doc(&doc, "fuzz", overlay)) {
    fuzz_render("fwd cpu f32 d8 fuzz", overlay);
    fuzz_render("bwd cpu f32 d8 causal fuzz", overlay);
  }
  free(doc);
  return 0;
}
