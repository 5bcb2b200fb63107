/* spec.h: the specification: words to struct, struct to words, and the one canonical form.
   Pure: looks at no file and no device. The public fa_spec_parse, fa_spec_print and fa_spec_name
   are here too. */
#ifndef FAGEN_GEN_SPEC_H
#define FAGEN_GEN_SPEC_H

#include "fagen.h"

/* Checks every field and writes the canonical spec: every byte determined, so that memcmp compares
   and any hash of the bytes will do. Defaults are filled in (dim_v, group, arch), words that change
   nothing for the pass are dropped. A target of FA_TARGET_BEST stays so, with arch 0. */
fa_status spec_canonicalise(fa_spec *out, const fa_spec *spec);

/* The words of the enumerations: "fwd", "sm90", "bf16". NULL for a number that is none. */
const char *spec_pass_word(int pass);
const char *spec_target_word(int target);
const char *spec_dtype_word(int dtype);

/* Bytes of one element. */
int spec_dtype_bytes(int dtype);

/* Calls `visit` for each name in a canonical variants string, in order; stops at the first status
   that is not FA_OK and returns it. */
fa_status spec_each_variant(const char *variants, fa_status (*visit)(void *to, const char *name),
                            void *to);

#endif
