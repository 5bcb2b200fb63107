/* test_gpu_matrix.c: what the GPU's compiler makes of a matrix of specs: no warning, no serialised
   product, no spill, within the limits of each architecture. Needs NVRTC and no GPU.

   FAGEN_CUBINS names a folder that gets the cubins of sm90 without variants, for sass_loops.sh. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"

#include "emitted_plan.h"
#include "gpu_code.h"
#include "serialised_source.h"

/* ---- The matrix ------------------------------------------------------------------------------ */

/* By the rules of the command line: a comma divides alternatives. A block has 163 KB of shared
   memory on cc80, 99 on cc86, cc89 and cc120, 227 on cc90 and cc100. */
static const char *const sm80_forward[] = {
    "fwd sm80 bf16 d8,40,64,72,80,96,128,192,256 cc80",
    "fwd sm80 f16 d64,128,192,256 cc86 causal gqa4",
    "fwd sm80 bf16 d8,40,72,80,96 cc89 causal",
    "fwd sm80 f16 d64,96,128,256 cc90",
    "fwd sm80 f16 d56 cc80 causal",
    "fwd sm80 bf16 d128,256 cc100 causal",
    "fwd sm80 f16 d64,128 cc120 gqa8 causal",
    "fwd sm80 bf16 d192 v128 cc80,86,120 causal",
    "fwd sm80 f16 d64 v256 cc86,90",
    "fwd sm80 bf16 d256 v64 cc89",
};
static const char *const sm80_backward[] = {
    "bwd sm80 bf16 d8,40,64,72,80,96,128,192,256 cc80",
    "bwd sm80 f16 d64,128,192,256 cc86 causal gqa4",
    "bwd sm80 bf16 d40,72,80,96 cc89 det",
    "bwd sm80 f16 d64,128,256 cc90 causal det",
    "bwd sm80 bf16 d128,256 cc100 gqa8 det",
    "bwd sm80 f16 d8,128,192 cc120 causal",
    "bwd sm80 bf16 d192 v128 cc80,86,120 causal",
    "bwd sm80 f16 d64 v256 cc86",
    "bwd sm80 bf16 d256 v64 cc90",
    "pre sm80 f16,bf16 d8,256 cc80,120",
};
static const char *const sm90_forward[] = {
    "fwd sm90 bf16 d8,40,64,72,80,96,112,128,160,192,256",
    "fwd sm90 bf16 d64,80,96,128,192,256 causal",
    "fwd sm90 f16 d64,128,256 causal gqa4",
    "fwd sm90 f16 d24,72,136,200 causal",
    "fwd sm90 bf16 d192 v128 causal",
    "fwd sm90 f16 d64 v256",
    "fwd sm90 bf16 d128 v64 gqa8",
};
static const char *const sm90_backward[] = {
    "bwd sm90 bf16 d8,40,64,72,80,96,128", "bwd sm90 bf16 d64,128 causal det",
    "bwd sm90 f16 d64,128 causal gqa4",    "bwd sm90 bf16 d128 v64",
    "bwd sm90 f16 d64 v128 gqa8 det",      "pre sm90 f16,bf16 d8,128",
};

/* Expressions in masks and scores, parameters and sinks. */
static const char *const variants[] = {
    "fwd sm80 bf16 d64 causal softcap window sink",
    "bwd sm80 bf16 d64 gqa2 causal softcap alibi sink",
    "fwd,bwd sm80 f16 d128 document block_draft",
    "fwd sm90 bf16 d128 causal softcap window sink",
    "fwd,bwd sm90 bf16 d64,128 alibi,bias,dilated,document,prefix_lm,sink,softcap,window",
    "fwd sm90 bf16 d256 alibi,bias,block_draft,dilated,document,softcap,window",
    "bwd sm90 bf16 d256 alibi,bias,dilated,document,softcap,window",
    "fwd,bwd sm90 bf16 d128 causal alibi,softcap",
    "bwd sm90 f16 d128 gqa4 det alibi,document,softcap,window",
    "bwd sm90 bf16 d64 gqa2 causal alibi sink",
    "fwd,bwd sm90 bf16 d128 document prefix_lm",
    "fwd,bwd sm90 bf16 d128 causal document",
    "fwd,bwd sm90 f16 d128 block_draft",
    "fwd,bwd sm90 bf16 d64,96 block_draft",
    "fwd,bwd sm90 bf16 d64 causal document",
    "bwd sm90 bf16 d128 gqa4 causal document",
    "bwd sm90 f16 d256 dilated alibi",
    "bwd sm80 bf16 d64,128 bias",
    "bwd sm80 f16 d72 gqa2 causal det document bias sink",
    "bwd sm80 f16 d256 cc86 tables",
    "bwd sm90 bf16 d64,128 causal bias",
    "bwd sm90 f16 d72 gqa2 det document bias sink",
    "bwd sm90 bf16 d256 steps",
};

/* The most bytes of spill stores of an entry. Of sm80 only the terms of several masks and places in a
   table take any: 8 and 16 bytes. */
static int allowed_spill(const fa_spec *spec) {
  if (spec->target == FA_TARGET_SM90) return 128;
  return spec->variants[0] ? 32 : 0;
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static int faults;

/* All of them are told before the test fails. */
__attribute__((format(printf, 2, 3))) static void fault(const gpu_code *of, const char *format,
                                                        ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("FAULT: %s: ", of->words);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  ++faults;
}

/* ---- The compiler's log ---------------------------------------------------------------------- */

/* Only ptxas' report of registers and memory is expected; its advice has a number, as in
   "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized". */
static int is_report(const char *line, size_t length) {
  char copy[256];
  snprintf(copy, sizeof copy, "%.*s", (int)length, line);
  return !length || (!strncmp(copy, "ptxas", 5) && !strstr(copy, "(C"));
}

enum { LINES_SHOWN = 3 };

/* Lines of the log that are no report. */
static int check_log(const gpu_code *of) {
  char file_name[FA_NAME_MAX + 4];
  int found = 0;
  snprintf(file_name, sizeof file_name, "%s.cu", of->text.name);
  char *log = render_map_log(&of->text.kernel, of->log, file_name);
  assert_non_null(log);
  for (const char *line = log; *line;) {
    size_t length = strcspn(line, "\n");
    if (!is_report(line, length) && found++ < LINES_SHOWN) printf("  %.*s\n", (int)length, line);
    line += length + (line[length] == '\n');
  }
  if (found) fault(of, "the compiler says the above, in %d lines", found);
  free(log);
  return found;
}

/* cubin_entry has stores and loads as one sum; a missing report is -1. */
static int spill_stores(const gpu_code *of, const char *entry) {
  char title[CUBIN_NAME + 32];
  int stores = -1;
  snprintf(title, sizeof title, "Function properties for %s\n", entry);
  const char *at = strstr(of->log, title);
  if (at) at = strstr(at, "bytes stack frame, ");
  if (at) sscanf(at, "bytes stack frame, %d bytes spill stores", &stores);
  return stores;
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* What plans ask for an entry, at most. */
typedef struct usage {
  unsigned threads, shared_bytes;
} usage;

static void add_usage(usage use[CUBIN_ENTRIES], const gpu_code *of, const fa_step *step) {
  for (int i = 0; i < of->code.num_entries; ++i) {
    if (strcmp(of->code.entries[i].name, step->entry)) continue;
    const unsigned threads = step->block[0] * step->block[1] * step->block[2];
    const unsigned shared = step->shared_bytes + (unsigned)of->code.entries[i].shared_bytes;
    if (use[i].threads < threads) use[i].threads = threads;
    if (use[i].shared_bytes < shared) use[i].shared_bytes = shared;
    return;
  }
  fault(of, "the plan launches %s, which the code lacks", step->entry);
}

static void run_plans(usage use[CUBIN_ENTRIES], const gpu_code *of) {
  static const long long lengths[] = {1, 128, 512, 1024, 2048, 4096, 16384};
  fa_kernel kernel;
  fa_plan plan;
  emitted_plan_compile(&kernel, &of->spec, &of->text);
  for (size_t i = 0; i < 2 * COUNT_OF(lengths); ++i) {
    const fa_problem problem = emitted_plan_problem(&of->spec, i % 2 ? 64 : 1, 2, lengths[i / 2]);
    kernel.plan(&problem, &plan);
    for (int s = 0; s < plan.num_steps; ++s) add_usage(use, of, &plan.steps[s]);
  }
  jit_free(kernel.code);
}

/* Shared memory that a block may have, in bytes. */
static unsigned most_shared(int arch) {
  return (arch == 80 ? 163 : arch == 90 || arch == 100 ? 227 : 99) * 1024u;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static void check_entry(const gpu_code *of, const cubin_entry *entry, const usage *use) {
  const int stores = spill_stores(of, entry->name), allowed = allowed_spill(&of->spec);
  /* A warp's registers are given out 256 at a time. */
  const unsigned registers = use->threads * (unsigned)((entry->registers + 7) / 8 * 8);
  printf("  %-58s %5d %7d %7d %8u %8u %8.0f\n", entry->name, entry->registers, stores,
         entry->spill_bytes - stores, use->threads, use->shared_bytes, of->ms);
  if (stores < 0 || entry->registers < 1) fault(of, "%s: no report", entry->name);
  if (stores > allowed)
    fault(of, "%s: %d bytes of spill stores; %d are allowed", entry->name, stores, allowed);
  if (!use->threads) fault(of, "%s: no plan launches it", entry->name);
  if (registers > 65536)
    fault(of, "%s: %d registers x %u threads; a multiprocessor has 65536", entry->name,
          entry->registers, use->threads);
  if (use->shared_bytes > most_shared(of->spec.arch))
    fault(of, "%s: %u bytes of shared memory; cc%d has %u", entry->name, use->shared_bytes,
          of->spec.arch, most_shared(of->spec.arch));
}

static void check_code(const gpu_code *of) {
  usage use[CUBIN_ENTRIES] = {{0, 0}};
  if (of->failure) {
    fault(of, "%.*s", (int)strcspn(of->failure, "\n"), of->failure);
    return;
  }
  check_log(of);
  run_plans(use, of);
  for (int i = 0; i < of->code.num_entries; ++i) check_entry(of, &of->code.entries[i], &use[i]);
}

/* ---- For sass_loops.sh ----------------------------------------------------------------------- */

static const char *cubin_folder; /* NULL: none are wanted */

static void leave_cubin(const gpu_code *of) {
  char path[4096];
  if (!cubin_folder || of->failure || of->spec.target != FA_TARGET_SM90) return;
  snprintf(path, sizeof path, "%s/%s.cubin", cubin_folder, of->text.name);
  FILE *file = fopen(path, "wb");
  int whole = file && fwrite(of->code.image, 1, of->code.bytes, file) == of->code.bytes;
  if (file && fclose(file)) whole = 0;
  if (!whole) fault(of, "%s cannot be written", path);
}

/* ---- The tests ------------------------------------------------------------------------------- */

static void check_lines(const char *const *lines, size_t count) {
  gpu_code_list list;
  double slowest = 0, sum = 0;
  faults = 0;
  gpu_code_compile(&list, lines, count, NULL);
  printf("  %-58s %5s %7s %7s %8s %8s %8s\n", "entry", "regs", "stored", "loaded", "threads",
         "shared", "ms");
  for (size_t i = 0; i < list.count; ++i) {
    check_code(&list.items[i]);
    leave_cubin(&list.items[i]);
    sum += list.items[i].ms;
    if (slowest < list.items[i].ms) slowest = list.items[i].ms;
  }
  printf("  %zu specs: %.0f ms each on average, %.0f at most\n", list.count,
         sum / (double)list.count, slowest);
  gpu_code_free(&list);
  fflush(stdout); /* before the message, which goes to stderr */
  if (faults) fail_msg("%d faults, told above", faults);
}

static void sm80_forward_compiles_without_spills(void **state) {
  (void)state;
  check_lines(sm80_forward, COUNT_OF(sm80_forward));
}

static void sm80_backward_compiles_without_spills(void **state) {
  (void)state;
  check_lines(sm80_backward, COUNT_OF(sm80_backward));
}

static void sm90_forward_compiles_unserialised(void **state) {
  (void)state;
  check_lines(sm90_forward, COUNT_OF(sm90_forward));
}

static void sm90_backward_compiles_unserialised(void **state) {
  (void)state;
  check_lines(sm90_backward, COUNT_OF(sm90_backward));
}

static void variants_compile_too(void **state) {
  (void)state;
  check_lines(variants, COUNT_OF(variants));
}

static void a_serialised_product_is_seen(void **state) {
  (void)state;
  gpu_code_list list;
  gpu_code_compile_source(&list, "fwd sm90 bf16 d64", SERIALISED_SOURCE, NULL);
  if (list.items->failure) fail_msg("%s", list.items->failure);
  printf("Wanted:\n");
  if (!check_log(list.items) || !strstr(list.items->log, "(C75"))
    fail_msg("not seen in: %s", list.items->log);
  gpu_code_free(&list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sm80_forward_compiles_without_spills),
      cmocka_unit_test(sm80_backward_compiles_without_spills),
      cmocka_unit_test(sm90_forward_compiles_unserialised),
      cmocka_unit_test(sm90_backward_compiles_unserialised),
      cmocka_unit_test(variants_compile_too),
      cmocka_unit_test(a_serialised_product_is_seen),
  };
  int missing = gpu_code_open("test_gpu_matrix");
  if (missing) return missing;
  cubin_folder = getenv("FAGEN_CUBINS");
  return cmocka_run_group_tests_name("gpu_matrix", tests, NULL, NULL);
}
