/* rendering.h: what the tests of templates share: one overlay folder, and renders with it. */
#ifndef FAGEN_TESTS_GEN_RENDERING_H
#define FAGEN_TESTS_GEN_RENDERING_H

#include "gen/render.h"
#include "support/overlay.h"

/* A spec, and the file that holds its kernel. */
extern const char *const rendering_words, *const rendering_file;

/* The folder of this test program: made by rendering_begin, removed by rendering_end, emptied before
   each test that has rendering_empty as its setup. */
extern overlay folder;
int rendering_begin(void **state);
int rendering_end(void **state);
int rendering_empty(void **state);

/* The canonical spec of some words. */
fa_spec canonical(const char *words);

/* Renders a spec with the folder; render_template first writes the kernel's template. */
fa_status render_words(render_result *out, const char *words);
fa_status render_template(render_result *out, const char *text);

/* A name for a case, what it gives to the library, and what is wanted of that. */
typedef struct template_case {
  const char *what, *text, *wanted;
} template_case;

#endif
