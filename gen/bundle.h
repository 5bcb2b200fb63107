/* bundle.h: where template text comes from: the overlay folder first, then what is embedded. */
#ifndef FAGEN_GEN_BUNDLE_H
#define FAGEN_GEN_BUNDLE_H

#include "fagen.h"

typedef struct bundle_file {
  const char *name; /* path below templates/, such as "variants/causal.lua" */
  const char *text; /* ends in 0 */
  size_t bytes;
} bundle_file;

/* The embedded files in ascending order of name. */
extern const bundle_file bundle_embedded[];
extern const size_t bundle_embedded_count;

/* Finds `name`. overlay is a folder or NULL. The text is yours: free(). *found_path (may be NULL)
   is the name to show in messages, "templates/NAME" or "OVERLAY/NAME": yours, free().
   FA_TEMPLATE: no such file, or it cannot be read. FA_INVALID: the overlay is no folder. */
fa_status bundle_read(char **text, size_t *bytes, char **found_path, const char *overlay,
                      const char *name);

/* Whether `name` is in the overlay or embedded. */
int bundle_has(const char *overlay, const char *name);

/* The names of the variants there are, sorted, each once. Yours: bundle_names_free. */
typedef struct bundle_names {
  char **names;
  size_t count;
} bundle_names;
fa_status bundle_variants(bundle_names *out, const char *overlay);
void bundle_names_free(bundle_names *names);

#endif
