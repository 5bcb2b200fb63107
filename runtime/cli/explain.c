/* explain.c: `fagen explain`: what a spec becomes, and what a problem costs, in checkable numbers.
 */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "explain_parts.h"
#include "gen/render.h"
#include "gen/spec.h"
#include "pairs.h"
#include "specs.h"
#include "table.h"

/* ---- The text ------------------------------------------------------------------------------- */

static void print_problem(const fa_spec *spec, const cli_sizes *sizes) {
  char words[FA_NAME_MAX], name[FA_NAME_MAX];
  if (fa_spec_print(words, sizeof words, spec) || fa_spec_name(name, sizeof name, spec)) return;
  printf("%s\n", name);
  table_row("spec", "%s", words);
  table_row("sizes",
            "batch %" PRId64 ", heads %" PRId64 ", key/value heads %" PRId64 ", seqlen %" PRId64
            ", seqlen_k %" PRId64,
            sizes->batch, sizes->heads_q, sizes->heads_kv, sizes->seqlen_q, sizes->seqlen_k);
  table_row("", "dim_qk %d, dim_v %d, %s of %d bytes", spec->dim_qk, spec->dim_v,
            spec_dtype_word(spec->dtype), spec_dtype_bytes(spec->dtype));
  const char *suffix = spec->target == FA_TARGET_CPU ? "c" : "cu";
  table_row("emitted as", "%s.%s", name, suffix);
  table_row("", "%s_launch.c", name);
}

static void print_facts(const render_result *rendered) {
  table_heading("Decisions of the generator");
  for (size_t i = 0; i < rendered->num_facts; ++i) {
    const render_fact *fact = &rendered->facts[i];
    table_row(fact->name, "%s: %s", fact->value, fact->reason);
  }
}

static void print_params(const drawn_params *drawn) {
  if (!drawn->count) return;
  table_heading("Parameters of the variants");
  for (int slot = 0; slot < drawn->count; ++slot) {
    char declared[256], value[256];
    drawn_print_declared(declared, sizeof declared, drawn->items[slot].declared);
    drawn_print(value, sizeof value, &drawn->items[slot]);
    table_row(drawn->items[slot].name, "%s", declared);
    table_row("", "here %s", value + strlen(drawn->items[slot].name) + 1);
  }
}

/* ---- The command ---------------------------------------------------------------------------- */

/* The tile that the facts name: "64 rows" and "80 keys", or "192 rows x 80 keys". Of several, the
   first that serves so many keys (", to 2048 keys"), or the last. */
static void find_tile(pairs_mask *out, const render_result *rendered, int64_t seqlen_k) {
  for (size_t i = 0; i < rendered->num_facts; ++i) {
    const char *value = rendered->facts[i].value, *limit = strstr(value, ", to ");
    long long rows = 0, keys = 0, number = 0;
    char unit[5] = "";
    if (sscanf(value, "%lld rows x %lld keys", &rows, &keys) != 2 &&
        sscanf(value, "%lld %4s", &number, unit) == 2) {
      rows = strcmp(unit, "rows") ? 0 : number;
      keys = strcmp(unit, "keys") ? 0 : number;
    }
    if (rows > 0) out->tile_rows = rows;
    if (keys > 0) out->tile_keys = keys;
    if (limit && rows > 0 && seqlen_k <= strtoll(limit + strlen(", to "), NULL, 10)) return;
  }
}

static int print_arithmetic(const fa_spec *spec, const cli_sizes *sizes, const pairs_mask *mask) {
  visible_pairs pairs;
  fa_status status = pairs_count(&pairs, spec, sizes, mask);
  if (status) return cli_fail(status);
  cost_print_work(spec, sizes, &pairs);
  cost_print_bytes(spec, sizes, &pairs);
  cost_print_saved(spec, sizes);
  return CLI_OK;
}

static int explain_rendered(const fa_spec *spec, const cli_sizes *sizes, const explain_place *place,
                            const render_result *rendered) {
  drawn_params drawn;
  pairs_mask mask = {rendered->keep, &drawn, 64, 64};
  fa_status status = drawn_make(&drawn, &rendered->params, sizes);
  int code = status ? cli_fail(status) : CLI_OK;
  if (status) goto cleanup;
  print_problem(spec, sizes);
  print_params(&drawn);
  print_facts(rendered);
  find_tile(&mask, rendered, sizes->seqlen_k);
  code = print_arithmetic(spec, sizes, &mask);
  if (code) goto cleanup;
  code = spec->target == FA_TARGET_CPU
             ? explain_cpu_plan(spec, sizes, &drawn)
             : explain_gpu_plan(place, sizes, &drawn, rendered->launch.text);
cleanup:
  drawn_free(&drawn);
  return code;
}

/* What has no templates yet still has its arithmetic. */
static int explain_unrendered(const fa_spec *spec, const cli_sizes *sizes, fa_status status) {
  print_problem(spec, sizes);
  int code = explain_missing("Decisions of the generator, launch plan and workspace", status);
  return code ? code : print_arithmetic(spec, sizes, NULL);
}

static int explain_one(const fa_spec *asked, const cli_options *options) {
  cli_sizes sizes;
  render_result rendered;
  explain_place place = {.spec = *asked};
  fa_status status = options_sizes(&sizes, options, asked);
  if (!status) status = cost_countable(asked, &sizes);
  if (status) return cli_fail(status);
  if (asked->target != FA_TARGET_CPU) explain_place_find(&place, asked);

  status = render_spec(&rendered, &place.spec, cli_overlay());
  if (status && cli_exit_code(status) != CLI_CANNOT_RUN) return cli_fail(status);
  if (status) return explain_unrendered(&place.spec, &sizes, status);
  int code = explain_rendered(&place.spec, &sizes, &place, &rendered);
  render_free(&rendered);
  return code;
}

int cli_explain(const cli_options *options) {
  spec_list specs;
  fa_status status = spec_list_read(&specs, options->words, options->num_words);
  if (status) return cli_fail(status);
  int code = CLI_OK;
  for (size_t i = 0; i < specs.count; ++i) {
    if (i) puts("");
    code = cli_worst(code, explain_one(&specs.items[i], options));
  }
  spec_list_free(&specs);
  return code;
}
