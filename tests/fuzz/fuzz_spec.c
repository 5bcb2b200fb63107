/* fuzz_spec.c: words and structs that are to be a spec. What is accepted has one canonical form, one
   name, and comes back from its words. An input that begins with a 0 is a struct. */
#include <string.h>

#include "fagen.h"
#include "fuzz.h"
#include "gen/spec.h"

static void check_accepted(const fa_spec *spec) {
  fa_spec canonical, again = FA_SPEC_INIT, back = FA_SPEC_INIT;
  char words[FA_NAME_MAX], name[FA_NAME_MAX];
  FUZZ_CHECK(!spec_canonicalise(&canonical, spec));
  FUZZ_CHECK(!spec_canonicalise(&again, &canonical));
  FUZZ_CHECK(!memcmp(&again, &canonical, sizeof again));
  FUZZ_CHECK(!fa_spec_print(words, sizeof words, spec));
  FUZZ_CHECK(!fa_spec_name(name, sizeof name, spec));
  FUZZ_CHECK(name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0');
  /* The words hold one that is no variant's, or are out of range for a word. */
  if (canonical.group > 999999999) return;
  FUZZ_CHECK(!fa_spec_parse(&back, words));
  FUZZ_CHECK(!memcmp(&back, &canonical, sizeof back));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fa_spec spec = FA_SPEC_INIT, canonical;
  if (bytes && !data[0]) {
    size_t used =
        bytes - 1 < sizeof spec - sizeof spec.size ? bytes - 1 : sizeof spec - sizeof spec.size;
    memcpy(&spec.pass, data + 1, used);
    if (!spec_canonicalise(&canonical, &spec)) check_accepted(&spec);
    return 0;
  }
  char *words = fuzz_text(data, bytes);
  if (!fa_spec_parse(&spec, words))
    check_accepted(&spec);
  else
    FUZZ_CHECK(*fa_error_message());
  free(words);
  return 0;
}
