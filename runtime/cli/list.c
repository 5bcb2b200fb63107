/* list.c: `fagen list`: the words of a spec, the targets, and the variants with their docs. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "drawn.h"
#include "gen/bundle.h"
#include "gen/render.h"
#include "gen/spec.h"

static void print_row(const char *name, const char *values, const char *meaning) {
  printf("  %-15s %-24s %s\n", name, values, meaning);
}

static void print_axes(void) {
  puts("Words of a spec, in any order; pass, dtype and head dimension are required");
  print_row("pass", "fwd", "forward: O and LSE from Q, K, V");
  print_row("", "pre", "the backward's first step alone: D = rowsum(dO * O) - dLSE");
  print_row("", "bwd", "backward, that step included: dQ, dK, dV");
  print_row("target", "cpu sm80 sm90", "what runs it, see below; none named: the best here");
  print_row("arch", "cc80 cc86 cc89 cc90", "the capability that tiles are chosen for;");
  print_row("", "cc100 cc120", "none named: cc80 for sm80, cc90 for sm90");
  print_row("dtype", "f16 bf16 f32", "of the tensors; sums and LSE are f32; f32 on cpu only");
  print_row("head dimension", "d8 d16 ... d256", "of Q and K, and of V unless v says otherwise");
  print_row("", "v8 v16 ... v256", "of V and O");
  print_row("group", "gqa1 gqa2 gqa3 ...", "query heads that share a key/value head; none: 1");
  print_row("causal", "causal", "query i sees key j <= i + seqlen_k - seqlen_q");
  print_row("det", "det", "gradients bitwise equal from run to run");
  print_row("variants", "names, see below", "masks and scores, in the order in which they act");
}

static void print_target(int target, const char *meaning) {
  printf("  %-15s %s\n", spec_target_word(target), meaning);
  fa_context_info info = FA_CONTEXT_INFO_INIT;
  fa_context *context;
  fa_status status = cli_open(&context, target);
  if (!status) {
    status = fa_context_info_get(&info, context);
    fa_context_destroy(context);
  }
  if (status)
    printf("  %-15s cannot run here: %s\n", "", fa_error_message());
  else if (target == FA_TARGET_CPU)
    printf("  %-15s runs here: %d threads, %s\n", "", info.threads, info.simd);
  else if (target == FA_TARGET_SM90 && info.arch != 90)
    printf("  %-15s cannot run here: the GPU has compute capability %d.%d, 9.0 is needed\n", "",
           info.arch / 10, info.arch % 10);
  else
    printf("  %-15s runs here: compute capability %d.%d\n", "", info.arch / 10, info.arch % 10);
}

static void print_targets(void) {
  puts("\nTargets");
  print_target(FA_TARGET_CPU, "the processor: needs no driver and no compiler");
  print_target(FA_TARGET_SM80, "mma.sync and cp.async: NVIDIA compute capability 8.0 to 12.x");
  print_target(FA_TARGET_SM90, "wgmma and TMA: NVIDIA compute capability 9.0");
}

/* The parameters are seen in a kernel that has the variant alone. */
static fa_status print_params(const char *name, const char *overlay) {
  char words[FA_NAME_MAX], declared[256];
  fa_spec asked = FA_SPEC_INIT, spec = FA_SPEC_INIT;
  render_result rendered = {0};
  snprintf(words, sizeof words, "fwd cpu f32 d64 %s", name);
  fa_status status = fa_spec_parse(&asked, words);
  if (!status) status = spec_canonicalise(&spec, &asked);
  if (!status) status = render_spec(&rendered, &spec, overlay);
  for (int i = 0; i < rendered.params.count; ++i) {
    const variant_param *param = &rendered.params.items[i];
    drawn_print_declared(declared, sizeof declared, param);
    printf("  %-15s   %s: %s\n", "", param->name, declared);
  }
  render_free(&rendered);
  return status;
}

/* A variant that does not load is shown with its error, and the rest are listed all the same. */
static int print_variant(const char *name, const char *overlay) {
  char *doc = NULL;
  fa_status status = render_variant_doc(&doc, name, overlay);
  int doc_shown = !status;
  if (!status) printf("  %-15s %s\n", name, doc);
  if (!status) status = print_params(name, overlay);
  free(doc);
  if (!status) return CLI_OK;
  int code = cli_exit_code(status);
  printf("  %-15s %s: %s\n", doc_shown ? "" : name,
         code == CLI_CANNOT_RUN ? "parameters not known" : "does not load", fa_error_message());
  return code == CLI_CANNOT_RUN ? CLI_OK : cli_fail(status);
}

static int print_variants(void) {
  const char *overlay = cli_overlay();
  bundle_names variants;
  fa_status status = bundle_variants(&variants, overlay);
  if (status) return cli_fail(status);
  printf("\nVariants, embedded%s%s\n", overlay ? " and from FA_TEMPLATE_DIR " : "",
         overlay ? overlay : "; FA_TEMPLATE_DIR names a folder with more");
  int code = CLI_OK;
  for (size_t i = 0; i < variants.count; ++i)
    code = cli_worst(code, print_variant(variants.names[i], overlay));
  bundle_names_free(&variants);
  return code;
}

int cli_list(const cli_options *options) {
  if (options->num_words) {
    fprintf(stderr, "fagen: '%s': `fagen list` takes no arguments\n", options->words[0]);
    return CLI_BAD_INPUT;
  }
  print_axes();
  print_targets();
  return print_variants();
}
