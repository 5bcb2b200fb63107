/* fuzz_template.c: template files: the template language, the sandbox, its limits. */
#include "fuzz_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_render("fwd cpu f32 d8", fuzz_overlay("cpu/fwd.c.lua", data, bytes));
  return 0;
}
