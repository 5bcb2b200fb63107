/* gpu_code.c: see gpu_code.h. */
#include "gpu_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/spec.h"
#include "runtime/cli/specs.h"
#include "runtime/clock.h"
#include "runtime/nvrtc_library.h"
#include "support/expect.h"

/* ---- NVRTC, watched -------------------------------------------------------------------------- */

/* nvrtc_compile keeps its log to itself and takes no options: both pass through here. */
static const nvrtc *real;
static struct nvrtc watched;
static const char *added_option;
static char *kept_log;

static const char overlay[] = FAGEN_SOURCE_DIR "/tests/numeric/overlay"; /* more variants */

static nvrtcResult compile_with_option(nvrtcProgram program, int num_options,
                                       const char *const *options) {
  const char *all[NVRTC_OPTIONS + 1];
  if (num_options > NVRTC_OPTIONS) abort();
  memcpy(all, options, (size_t)num_options * sizeof *all);
  if (added_option) all[num_options++] = added_option;
  return real->CompileProgram(program, num_options, all);
}

static nvrtcResult keep_log(nvrtcProgram program, char *log) {
  nvrtcResult result = real->GetProgramLog(program, log);
  kept_log = strdup(result ? "" : log);
  return result;
}

static int toolkit_is_here(void) {
  return getenv("CUDA_HOME") || getenv("CUDA_PATH") || !access("/usr/local/cuda", F_OK) ||
         !system("command -v nvcc >/dev/null 2>&1");
}

int gpu_code_open(const char *test) {
  const char *path = getenv("FA_NVRTC");
  if (nvrtc_open(&real, path && *path ? path : NULL)) {
    printf("%s %s: %s\n", toolkit_is_here() ? "FAILED" : "SKIP", test, fa_error_message());
    return toolkit_is_here() ? 1 : 77;
  }
  setenv("FA_TEMPLATE_DIR", overlay, 1); /* for those who read specs */
  watched = *real;
  watched.CompileProgram = compile_with_option;
  watched.GetProgramLog = keep_log;
  printf("NVRTC %s\n", nvrtc_identity(real));
  return 0;
}

/* ---- Compiling ------------------------------------------------------------------------------- */

static void compile_one(gpu_code *of, const char *option) {
  fa_status status = FA_OK;
  if (!of->text.kernel.text) status = render_spec(&of->text, &of->spec, overlay);
  double start = clock_ms();
  added_option = option;
  kept_log = NULL;
  if (!status) status = nvrtc_compile(&of->code, &watched, &of->text, &of->spec);
  of->ms = clock_ms() - start;
  of->log = kept_log;
  if (status) of->failure = strdup(fa_error_message());
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static void list_specs(gpu_code_list *out, const char *const *lines, size_t count) {
  spec_list specs;
  char **arguments = calloc(count, sizeof *arguments);
  assert_non_null(arguments);
  for (size_t i = 0; i < count; ++i) arguments[i] = strdup(lines[i]);
  expect_ok(spec_list_read(&specs, arguments, count));
  for (size_t i = 0; i < count; ++i) free(arguments[i]);
  free(arguments);
  out->count = specs.count;
  out->items = calloc(specs.count, sizeof *out->items);
  assert_non_null(out->items);
  for (size_t i = 0; i < specs.count; ++i) {
    out->items[i].spec = specs.items[i];
    expect_ok(fa_spec_print(out->items[i].words, FA_NAME_MAX, &specs.items[i]));
  }
  spec_list_free(&specs);
}

void gpu_code_compile(gpu_code_list *out, const char *const *lines, size_t count,
                      const char *option) {
  list_specs(out, lines, count);
  for (size_t i = 0; i < out->count; ++i) compile_one(&out->items[i], option);
}

void gpu_code_compile_source(gpu_code_list *out, const char *words, const char *source,
                             const char *option) {
  list_specs(out, &words, 1);
  assert_int_equal(out->count, 1);
  render_text *kernel = &out->items->text.kernel;
  snprintf(out->items->text.name, FA_NAME_MAX, "by_hand");
  kernel->text = strdup(source);
  compile_one(out->items, option);
}

void gpu_code_free(gpu_code_list *list) {
  for (size_t i = 0; i < list->count; ++i) {
    render_free(&list->items[i].text);
    cubin_free(&list->items[i].code);
    free(list->items[i].log);
    free(list->items[i].failure);
  }
  free(list->items);
  *list = (gpu_code_list){.items = NULL};
}
