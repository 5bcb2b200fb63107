/* variant_list.c: see variant_list.h. */
#include "variant_list.h"

#include "support.h"

#include "gen/bundle.h"
#include "gen/render.h"
#include "gen/spec.h"

#include <stdio.h>
#include <string.h>

static void look_into(listed_variant *out, const char *name) {
  char words[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT, canonical = FA_SPEC_INIT;
  render_result rendered;
  snprintf(out->name, sizeof out->name, "%s", name);
  snprintf(words, sizeof words, "fwd cpu f32 d8 %s", name);
  expect_ok(fa_spec_parse(&spec, words));
  expect_ok(spec_canonicalise(&canonical, &spec));
  expect_ok(render_spec(&rendered, &canonical, support_overlay()));
  out->keeps = rendered.keep[0] != '\0';
  out->scores = rendered.score[0] != '\0';
  out->sinks = rendered.sink[0] != '\0';
  out->params = rendered.params;
  render_free(&rendered);
}

size_t variant_list(listed_variant out[VARIANTS_LISTED_MAX]) {
  const size_t of_the_tests = 16;
  size_t count = 0;
  bundle_names names;
  expect_ok(bundle_variants(&names, support_overlay()));
  assert_in_range(names.count, of_the_tests, VARIANTS_LISTED_MAX);
  for (size_t i = 0; i < names.count; ++i)
    if (strcmp(names.names[i], "causal")) look_into(&out[count++], names.names[i]);
  bundle_names_free(&names);
  return count;
}

/* ---- Cases ------------------------------------------------------------------------------- */

/* Lengths below, at and past the tiles, of one row and of one key, and more rows than keys. */
static const int64_t lengths[][2] = {{13, 8}, {65, 65}, {70, 130}, {130, 70},
                                     {1, 97}, {97, 1},  {8, 13},   {64, 64}};
static const int dims[] = {8, 40, 72, 16, 24};

trial_options variant_case(unsigned n, const char *dtype, const char *words) {
  char spec[FA_NAME_MAX];
  const int64_t *length = lengths[n % COUNT_OF(lengths)];
  const int layout = n / 5 % TRIAL_LAYOUTS, group = on_gpu() ? 2 : 1 + (int)(n / 2 % 3);
  const int dim = on_gpu() ? 64 : dims[n / 3 % COUNT_OF(dims)]; /* one kernel for many cases */
  snprintf(spec, sizeof spec, "bwd cpu %s d%d gqa%d %s", dtype, dim, group, words);
  trial_options options = trial_of(spec, 1 + n / 4 % 2, 2 * group, length[0], length[1]);
  options.sizes.seed = 1 + n;
  options.with_dlse = n % 3 == 0;
  options.layout = layout == TRIAL_PACKED ? TRIAL_BSHD : layout; /* needs equal lengths */
  return options;
}
