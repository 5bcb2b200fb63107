/* cuda_build.c: the steps from a spec to GPU code, each skipped when the disk has its result. */
#include "cuda_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "nvrtc.h"
#include "render.h"
#include "template_digest.h"

/* Everything that can change the binary, as text. The first line is the version of these lines and
   of the sections. */
enum { KEY_BYTES = 2048 };

typedef struct build {
  const fa_spec *spec;
  const cuda_tools *tools;
  digest templates;
  char identity[NVRTC_IDENTITY]; /* of NVRTC */
  char key[KEY_BYTES];
} build;

static void write_key(build *b) {
  char words[FA_NAME_MAX] = "", templates[DIGEST_HEX];
  nvrtc_options options;
  fa_spec_print(words, sizeof words, b->spec);
  digest_print(templates, b->templates);
  nvrtc_options_of(&options, b->spec);
  int used = snprintf(b->key, sizeof b->key,
                      "fagen kernel 3\nlibrary %d.%d.%d\nspec %s\narch %d\ntemplates %s\n"
                      "nvrtc %s\noptions",
                      FA_VERSION_MAJOR, FA_VERSION_MINOR, FA_VERSION_PATCH, words, b->spec->arch,
                      templates, b->identity);
  for (int i = 0; i < NVRTC_OPTIONS; ++i)
    used += snprintf(b->key + used, sizeof b->key - (size_t)used, " %s", options.list[i]);
  snprintf(b->key + used, sizeof b->key - (size_t)used, "\n");
}

/* ---- From the disk --------------------------------------------------------------------------- */

static char *copy_section(const cache_entry *entry, const char *name) {
  const cache_section *section = cache_find(entry, name);
  return section ? strdup(section->data) : NULL;
}

static int copy_code(cubin *to, const cache_entry *entry) {
  const cache_section *image = cache_find(entry, "cubin"), *list = cache_find(entry, "entries");
  if (!image || !list || !cubin_parse_entries(to, list->data)) return 0;
  to->bytes = image->bytes;
  to->image = malloc(image->bytes + 1);
  if (to->image) memcpy(to->image, image->data, image->bytes);
  return to->image != NULL;
}

static int load(cuda_binary *out, const build *b) {
  cache_entry entry;
  double start = clock_ms();
  if (!cache_read(&entry, b->tools->kept, b->key)) return 0;
  out->source = copy_section(&entry, "source");
  out->launch_source = copy_section(&entry, "launch");
  out->params = copy_section(&entry, "params");
  int whole = out->source && out->launch_source && out->params && copy_code(&out->code, &entry);
  cache_entry_free(&entry);
  if (!whole) cuda_binary_free(out);
  out->origin = FA_FROM_DISK;
  out->read_ms = clock_ms() - start;
  return whole;
}

/* ---- Built ----------------------------------------------------------------------------------- */

static void keep(const cuda_binary *binary, const build *b) {
  digest now;
  char *entries = cubin_print_entries(&binary->code);
  const cache_section sections[] = {
      {"source", binary->source, strlen(binary->source)},
      {"launch", binary->launch_source, strlen(binary->launch_source)},
      {"params", binary->params, strlen(binary->params)},
      {"entries", entries, entries ? strlen(entries) : 0},
      {"cubin", binary->code.image, binary->code.bytes},
  };
  /* An overlay that was edited meanwhile may have been read before or after. */
  int steady =
      !template_digest(&now, b->tools->template_dir) && !memcmp(&now, &b->templates, sizeof now);
  if (!steady) log_line(b->tools->log, LOG_DEBUG, "not kept: the templates changed meanwhile");
  if (entries && steady)
    cache_write(b->tools->kept, b->key, sections, sizeof sections / sizeof *sections);
  free(entries);
}

static fa_status build_anew(cuda_binary *out, const build *b, const nvrtc *library) {
  render_result text;
  double start = clock_ms();
  fa_status status = render_spec(&text, b->spec, b->tools->template_dir);
  if (status) return status;
  double rendered = clock_ms();
  status = nvrtc_compile(&out->code, library, &text, b->spec);
  out->source = text.kernel.text;
  out->launch_source = text.launch.text;
  out->params = text.params_text;
  text.kernel.text = text.launch.text = text.params_text = NULL;
  out->origin = FA_BUILT;
  out->render_ms = rendered - start;
  out->compile_ms = clock_ms() - rendered;
  render_free(&text);
  if (!status && b->tools->kept) keep(out, b);
  return status;
}

/* The library itself says what the key should be; where it is another than was remembered, the disk
   may have the entry after all. */
static fa_status build_with_library(cuda_binary *out, build *b) {
  const nvrtc *library;
  fa_status status = nvrtc_open(&library, b->tools->nvrtc);
  if (status) return status;
  log_line(b->tools->log, LOG_DEBUG, "NVRTC %s compiles", nvrtc_identity(library));
  if (strcmp(b->identity, nvrtc_identity(library))) {
    snprintf(b->identity, sizeof b->identity, "%s", nvrtc_identity(library));
    write_key(b);
    if (load(out, b)) return FA_OK;
  }
  return build_anew(out, b, library);
}

/* Who has waited for the lock finds the entry of the one that held it. */
static fa_status build_once(cuda_binary *out, build *b) {
  cache_lock lock;
  fa_status status = FA_OK;
  cache_lock_take(&lock, b->tools->kept, b->key);
  if (lock.file < 0 || !load(out, b)) status = build_with_library(out, b);
  cache_lock_drop(&lock);
  return status;
}

fa_status cuda_build_or_load(cuda_binary *out, const fa_spec *spec, const cuda_tools *tools) {
  build *b = calloc(1, sizeof *b);
  *out = (cuda_binary){.source = NULL};
  if (!b) return fail(FA_NO_MEMORY, "kernel: out of memory");
  b->spec = spec;
  b->tools = tools;
  fa_status status = template_digest(&b->templates, tools->template_dir);
  if (!status) status = nvrtc_identify(b->identity, tools->nvrtc, tools->kept);
  if (!status) {
    write_key(b);
    if (!load(out, b)) status = build_once(out, b);
  }
  if (status) cuda_binary_free(out);
  snprintf(out->compiler, sizeof out->compiler, "%s", b->identity);
  free(b);
  return status;
}

void cuda_binary_free(cuda_binary *binary) {
  free(binary->source);
  free(binary->launch_source);
  free(binary->params);
  cubin_free(&binary->code);
  *binary = (cuda_binary){.source = NULL};
}
