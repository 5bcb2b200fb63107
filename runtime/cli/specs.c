/* specs.c: words of a command line -> canonical specs. */
#include "specs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "expand.h"
#include "gen/bundle.h"
#include "gen/error.h"
#include "gen/spec.h"
#include "runtime/kernel.h"

/* ---- Unknown words -------------------------------------------------------------------------- */

static int is_listed(const bundle_names *names, const char *name) {
  for (size_t i = 0; i < names->count; ++i)
    if (!strcmp(names->names[i], name)) return 1;
  return 0;
}

static fa_status check_variant(const char *name) {
  bundle_names known;
  fa_status status = bundle_variants(&known, cli_overlay());
  if (status) return status;
  int listed = is_listed(&known, name);
  bundle_names_free(&known);
  if (listed) return FA_OK;
  return fail(FA_INVALID,
              "spec: '%s' is no word of a spec, and no variant of that name is embedded or in "
              "FA_TEMPLATE_DIR; `fagen list` shows the words there are",
              name);
}

/* The parser takes every word that it does not know for a variant's name. In a spec that wants
   nothing else, it shows which words those are; what it refuses, it refuses again in place. */
static fa_status check_word(const char *word, size_t length) {
  char words[128];
  fa_spec spec = FA_SPEC_INIT;
  if (length > 64) return FA_OK;
  snprintf(words, sizeof words, "bwd f16 d8 %.*s", (int)length, word);
  if (fa_spec_parse(&spec, words) || !spec.variants[0]) return FA_OK;
  return check_variant(spec.variants);
}

static fa_status check_words(const char *words) {
  fa_status status = FA_OK;
  while (!status && *words) {
    size_t length = strcspn(words, " ");
    status = check_word(words, length);
    words += length + (words[length] == ' ');
  }
  return status;
}

/* ---- The list ------------------------------------------------------------------------------- */

/* Names the target of a spec without one: f32 is for the processor whatever else is here. */
static fa_status name_target(fa_spec *out, const fa_spec *spec) {
  if (spec->target != FA_TARGET_BEST) return spec_canonicalise(out, spec);
  fa_context *context;
  fa_status status = cli_open(&context, spec->dtype == FA_F32 ? FA_TARGET_CPU : FA_TARGET_BEST);
  if (status) return status;
  status = kernel_resolve(out, context, spec);
  fa_context_destroy(context);
  return status;
}

static int contains(const spec_list *list, const fa_spec *spec) {
  for (size_t i = 0; i < list->count; ++i)
    if (!memcmp(&list->items[i], spec, sizeof *spec)) return 1;
  return 0;
}

static fa_status read_one(fa_spec *out, const char *words) {
  fa_spec spec = FA_SPEC_INIT;
  fa_status status = check_words(words);
  if (!status) status = fa_spec_parse(&spec, words);
  return status ? status : name_target(out, &spec);
}

fa_status spec_list_read(spec_list *out, char *const *arguments, size_t count) {
  *out = (spec_list){NULL, 0};
  if (count == 0)
    return fail(FA_INVALID,
                "no spec is given; one is a pass, a dtype and a head dimension at least, "
                "such as: fwd cpu f32 d64");
  expand_list words;
  fa_status status = expand_arguments(&words, arguments, count);
  if (status) return status;
  out->items = calloc(words.count, sizeof *out->items);
  if (!out->items) status = fail(FA_NO_MEMORY, "out of memory while reading the specs");
  for (size_t i = 0; !status && i < words.count; ++i) {
    fa_spec *next = &out->items[out->count];
    status = read_one(next, words.specs[i]);
    if (!status && !contains(out, next)) out->count++;
  }
  expand_free(&words);
  if (status) spec_list_free(out);
  return status;
}

void spec_list_free(spec_list *list) {
  free(list->items);
  *list = (spec_list){NULL, 0};
}
