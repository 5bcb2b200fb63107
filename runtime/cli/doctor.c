/* doctor.c: `fagen doctor`: what this machine has, part by part, and what is wrong with it. Each part
   is tried, not looked at: code is compiled and run, the cache folder is opened as a build opens it. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gen/bundle.h"
#include "gen/error.h"
#include "gen/render.h"
#include "runtime/cache.h"
#include "runtime/context.h"
#include "runtime/cuda_arch.h"
#include "runtime/driver.h"
#include "runtime/jit.h"
#include "runtime/nvrtc.h"
#include "table.h"

typedef enum state { WELL, ABSENT, WRONG } state;

/* Prints a part's line; the first of `text` may be several. Gives the exit code. */
static int say(const char *part, state of, const char *text) {
  static const char *const words[] = {"ok", "none", "WRONG"};
  printf("%-11s  %-5s  %s\n", part, words[of], text);
  return of == WRONG ? CLI_WRONG : CLI_OK;
}

/* This thread's message, for a part that is missing or that fails. */
static int say_failure(const char *part, fa_status status) {
  int absent = status == FA_NO_DRIVER || status == FA_NO_NVRTC;
  return say(part, absent ? ABSENT : WRONG, fa_error_message());
}

/* ---- The processor --------------------------------------------------------------------------- */

static int examine_processor(void) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  fa_context *context;
  char text[128];
  options.backend = FA_CPU;
  options.log = "off";
  fa_status status = fa_context_create(&context, &options);
  if (status) return say_failure("processor", status);
  fa_context_info_get(&info, context);
  snprintf(text, sizeof text, "%d threads, %s", info.threads, info.simd);
  fa_context_destroy(context);
  return say("processor", WELL, text);
}

static int examine_libtcc(void) {
  const render_text text = {.text =
                                "int twice(int x) { static int calls; ++calls; return 2 * x; }\n"};
  const jit_unit unit = {"doctor.c", &text};
  jit *code;
  fa_status status = jit_compile(&code, &unit, 1);
  if (status) return say_failure("libtcc", status);
  int (*twice)(int) = (int (*)(int))jit_symbol(code, "twice");
  jit_seal(code);
  int right = twice && twice(21) == 42;
  jit_free(code);
  return say("libtcc", right ? WELL : WRONG,
             right ? "compiles and runs; no page is writable and executable at once"
                   : "compiles, but the code gives a wrong result");
}

/* ---- The GPU --------------------------------------------------------------------------------- */

static int examine_device(const driver *cu, int ordinal) {
  int major = 0, minor = 0, processors = 0, pools = 0, arch;
  char part[32], text[512];
  cu->DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);
  cu->DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
  cu->DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
  cu->DeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, ordinal);
  snprintf(part, sizeof part, "device %d", ordinal);
  if (cuda_arch_of(&arch, major, minor)) return say(part, WRONG, fa_error_message());
  snprintf(text, sizeof text,
           "compute capability %d.%d, runs kernels of cc%d; %d multiprocessors%s", major, minor,
           arch, processors, pools ? "" : "; no memory in stream order");
  return say(part, WELL, text);
}

static int examine_driver(void) {
  const driver *cu;
  char text[128];
  int count = 0;
  fa_status status = driver_open(&cu);
  if (!status) status = driver_check(cu, cu->DeviceGetCount(&count), "cuDeviceGetCount");
  if (status) return say_failure("driver", status);
  snprintf(text, sizeof text, "of CUDA %d.%d; devices: %d", cu->version / 1000,
           cu->version % 1000 / 10, count);
  int code = say("driver", count ? WELL : ABSENT, text);
  for (int i = 0; i < count; ++i) code = cli_worst(code, examine_device(cu, i));
  return code;
}

/* Drivers take code of any compiler of their own major version. */
static int is_newer_than_the_driver(const nvrtc *library, int *driver_major) {
  const driver *cu;
  if (driver_open(&cu)) return 0;
  *driver_major = cu->version / 1000;
  return nvrtc_version_of(nvrtc_identity(library)) / 1000 > *driver_major;
}

/* Its builtins library is missed only by a compilation. */
static int examine_nvrtc(void) {
  static char source[] = "extern \"C\" __global__ void fa_doctor(float *x) { *x += 1; }\n";
  const render_result text = {.name = "fa_doctor", .kernel = {.text = source}};
  const fa_spec spec = {.target = FA_TARGET_SM80, .arch = 80};
  const nvrtc *library;
  cubin code;
  char line[512];
  int driver_major = 0;
  const char *named = context_environment("FA_NVRTC");
  if (nvrtc_open(&library, named)) return say("NVRTC", named ? WRONG : ABSENT, fa_error_message());
  if (nvrtc_compile(&code, library, &text, &spec)) return say("NVRTC", WRONG, fa_error_message());
  snprintf(line, sizeof line, "compiles: %s, build %s", nvrtc_path(library),
           nvrtc_identity(library));
  cubin_free(&code);
  if (!is_newer_than_the_driver(library, &driver_major)) return say("NVRTC", WELL, line);
  size_t used = strlen(line);
  snprintf(line + used, sizeof line - used, "; the driver, of CUDA %d, may not load what it makes",
           driver_major);
  return say("NVRTC", WRONG, line);
}

/* ---- Folders --------------------------------------------------------------------------------- */

typedef struct tally {
  uint64_t bytes;
  int entries, damaged;
} tally;

static void count_entry(void *to, const cache_item *item) {
  tally *sum = to;
  ++sum->entries;
  sum->damaged += !item->key;
  sum->bytes += item->bytes;
}

static void keep_line(void *to, int level, const char *line) {
  (void)level;
  snprintf(to, 512, "%s", line);
}

static int examine_open_cache(cache *kept) {
  char line[1024];
  tally sum = {0, 0, 0};
  struct statvfs disk;
  const char *path = cache_path(kept);
  cache_visit(kept, count_entry, &sum);
  int used = snprintf(line, sizeof line, "%.700s: %d entries, %s", path, sum.entries,
                      amount_of_bytes((int64_t)sum.bytes).text);
  if (!statvfs(path, &disk))
    used += snprintf(line + used, sizeof line - (size_t)used, "; %s are free",
                     amount_of_bytes((int64_t)(disk.f_bavail * disk.f_frsize)).text);
  if (sum.damaged)
    snprintf(line + used, sizeof line - (size_t)used, "; %d damaged (fagen cache verify)",
             sum.damaged);
  else if (access(path, W_OK))
    snprintf(line + used, sizeof line - (size_t)used, "; it is read, and cannot be written: %s",
             strerror(errno));
  return say("cache", sum.damaged ? WRONG : WELL, line);
}

/* A folder that is not there is not made by looking for it. */
static int examine_cache(void) {
  char why[512] = "", line[1024];
  char *path = cache_choose(NULL);
  int code;
  cache *kept = NULL;
  if (!path) return say("cache", ABSENT, "no folder is named (FA_CACHE_DIR); nothing is kept");
  if (access(path, F_OK) && errno == ENOENT) {
    snprintf(line, sizeof line, "%.900s is not there yet; the first GPU kernel makes it", path);
    code = say("cache", WELL, line);
  } else if (!(kept = cache_open(NULL, (log_sink){LOG_WARNINGS, keep_line, why}))) {
    code = say("cache", WRONG, *why ? why : "it cannot be opened");
  } else {
    code = examine_open_cache(kept);
  }
  cache_close(kept);
  free(path);
  return code;
}

static int examine_templates(void) {
  const char *overlay = cli_overlay();
  char line[1024];
  int failed = 0;
  bundle_names variants;
  fa_status status = bundle_variants(&variants, overlay);
  if (status) return say_failure("templates", status);
  for (size_t i = 0; i < variants.count && !failed; ++i) {
    char *doc = NULL;
    failed = render_variant_doc(&doc, variants.names[i], overlay) != FA_OK;
    free(doc);
  }
  snprintf(line, sizeof line, "%s%.700s; %zu variants", overlay ? "first those of " : "embedded",
           overlay ? overlay : "", variants.count);
  bundle_names_free(&variants);
  return failed ? say("templates", WRONG, fa_error_message()) : say("templates", WELL, line);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int examine_log(void) {
  log_sink unused = log_to_stderr(LOG_OFF);
  return log_choose(&unused, NULL) ? say("FA_LOG", WRONG, fa_error_message()) : CLI_OK;
}

int cli_doctor(const cli_options *options) {
  static int (*const parts[])(void) = {examine_processor, examine_libtcc, examine_driver,
                                       examine_nvrtc,     examine_cache,  examine_templates,
                                       examine_log};
  int code = CLI_OK;
  if (options->num_words) {
    fprintf(stderr, "fagen: '%s': `fagen doctor` takes no arguments\n", options->words[0]);
    return CLI_BAD_INPUT;
  }
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) code = cli_worst(code, parts[i]());
  return code;
}
