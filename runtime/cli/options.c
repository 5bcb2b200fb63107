/* options.c: one table of options for all commands, strict numbers, and the default sizes. */
#include "options.h"

#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/error.h"

/* ---- Numbers -------------------------------------------------------------------------------- */

static fa_status read_size(int64_t *out, const char *option, const char *text) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  int digits = text[strspn(text, "0123456789")] == '\0' && *text;
  if (!digits || errno || value > INT32_MAX)
    return fail(FA_INVALID, "--%s: '%s'; a whole number from 0 to %" PRId32 " is needed", option,
                text, INT32_MAX);
  *out = value;
  return FA_OK;
}

static fa_status read_jobs(int64_t *out, const char *text) {
  fa_status status = read_size(out, "jobs", text);
  if (!status && *out >= 1 && *out <= CLI_MOST_JOBS) return FA_OK;
  return fail(FA_INVALID, "--jobs: '%s'; a whole number from 1 to %d is needed", text,
              CLI_MOST_JOBS);
}

/* "64M": with a letter, so many times 1024, 1024^2 or 1024^3. */
static fa_status read_bytes(int64_t *out, const char *option, const char *text) {
  static const char letters[] = "KMG";
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  const char *letter = *end ? strchr(letters, *end) : NULL;
  int64_t unit = letter ? INT64_C(1) << 10 * (letter - letters + 1) : 1;
  size_t digits = strspn(text, "0123456789");
  int whole = digits && text + digits == end && (!*end || (letter && !end[1]));
  if (!whole || errno || __builtin_mul_overflow(value, unit, out))
    return fail(FA_INVALID,
                "--%s: '%s'; a whole number from 0 to %" PRId64
                " is needed, or one followed by K, M or G, such as 512M",
                option, text, INT64_MAX);
  return FA_OK;
}

static fa_status read_seed(uint64_t *out, const char *text) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  int digits = text[strspn(text, "0123456789")] == '\0' && *text;
  if (!digits || errno)
    return fail(FA_INVALID, "--seed: '%s'; a whole number from 0 to %" PRIu64 " is needed", text,
                UINT64_MAX);
  *out = value;
  return FA_OK;
}

/* A finite number that is written in full, with nothing after it. */
static int read_double(double *out, const char *text) {
  char *end;
  if (!*text || strchr(" \t\n\r\v\f", *text)) return 0;
  *out = strtod(text, &end);
  return *end == '\0' && isfinite(*out);
}

static fa_status read_scale(float *out, const char *text) {
  double value;
  if (!read_double(&value, text) || value < FLT_MIN || value > FLT_MAX)
    return fail(FA_INVALID, "--scale: '%s'; a number from %g to %g is needed", text, FLT_MIN,
                FLT_MAX);
  *out = (float)value;
  return FA_OK;
}

static fa_status read_param(cli_options *options, const char *text) {
  const char *equals = strchr(text, '='), *dot = strchr(text, '.');
  double value;
  if (!equals || !dot || dot == text || dot + 1 >= equals || !read_double(&value, equals + 1))
    return fail(FA_INVALID,
                "--param: '%s'; VARIANT.NAME=VALUE with a finite number is needed, such as "
                "softcap.cap=30",
                text);
  size_t count = options->sizes.num_params, length = (size_t)(equals - text);
  for (size_t i = 0; i < count; ++i)
    if (!strncmp(options->params[i].name, text, length) && !options->params[i].name[length])
      return fail(FA_INVALID, "--param: '%s'; this parameter is given twice", text);
  cli_param *grown = realloc(options->params, (count + 1) * sizeof *grown);
  if (!grown) return fail(FA_NO_MEMORY, "out of memory while reading --param");
  options->params = grown;
  options->sizes.params = grown;
  grown[count] = (cli_param){strndup(text, length), value};
  if (!grown[count].name) return fail(FA_NO_MEMORY, "out of memory while reading --param");
  options->sizes.num_params++;
  return FA_OK;
}

/* ---- Options -------------------------------------------------------------------------------- */

enum {
  BATCH = 256,
  HEADS,
  HEADS_KV,
  SEQLEN,
  SEQLEN_K,
  SCALE,
  SEED,
  PARAM,
  NO_CACHE,
  MAX_BYTES,
  SIZED = CLI_EXPLAIN | CLI_CHECK,
  WRITING = CLI_EMIT | CLI_COMPILE,
  EVERY = CLI_EMIT | CLI_LIST | CLI_EXPLAIN | CLI_CHECK | CLI_HELP | CLI_COMPILE | CLI_CACHE |
          CLI_DOCTOR
};

static const struct known_option {
  const char *name;
  int takes_value, letter;
  unsigned commands; /* of cli_command */
} known_options[] = {
    {"help", 0, 'h', EVERY},
    {"output", 1, 'o', WRITING},
    {"batch", 1, BATCH, SIZED},
    {"heads", 1, HEADS, SIZED},
    {"heads-kv", 1, HEADS_KV, SIZED},
    {"seqlen", 1, SEQLEN, SIZED},
    {"seqlen-k", 1, SEQLEN_K, SIZED},
    {"scale", 1, SCALE, CLI_CHECK},
    {"param", 1, PARAM, SIZED},
    {"seed", 1, SEED, SIZED},
    {"jobs", 1, 'j', CLI_COMPILE},
    {"no-cache", 0, NO_CACHE, CLI_COMPILE},
    {"max-bytes", 1, MAX_BYTES, CLI_CACHE},
};
enum { NUM_OPTIONS = sizeof known_options / sizeof *known_options };

/* The options that a command takes, as getopt_long wants them. */
static void make_table(struct option table[NUM_OPTIONS + 1], cli_command command) {
  size_t n = 0;
  for (size_t i = 0; i < NUM_OPTIONS; ++i)
    if (known_options[i].commands & command)
      table[n++] = (struct option){known_options[i].name, known_options[i].takes_value, NULL,
                                   known_options[i].letter};
  table[n] = (struct option){NULL, 0, NULL, 0};
}

static fa_status take_option(cli_options *options, int letter, const char *value) {
  cli_sizes *sizes = &options->sizes;
  switch (letter) {
  case 'h':
    options->help = 1;
    return FA_OK;
  case 'o':
    options->folder = value;
    return *value ? FA_OK : fail(FA_INVALID, "--output: ''; the name of a folder is needed");
  case BATCH:
    return read_size(&sizes->batch, "batch", value);
  case HEADS:
    return read_size(&sizes->heads_q, "heads", value);
  case HEADS_KV:
    return read_size(&sizes->heads_kv, "heads-kv", value);
  case SEQLEN:
    return read_size(&sizes->seqlen_q, "seqlen", value);
  case SEQLEN_K:
    return read_size(&sizes->seqlen_k, "seqlen-k", value);
  case SCALE:
    return read_scale(&sizes->softmax_scale, value);
  case SEED:
    return read_seed(&sizes->seed, value);
  case PARAM:
    return read_param(options, value);
  case 'j':
    return read_jobs(&options->jobs, value);
  case NO_CACHE:
    options->no_cache = 1;
    return FA_OK;
  case MAX_BYTES:
    return read_bytes(&options->max_bytes, "max-bytes", value);
  }
  return fail(FA_INVALID, "option %d is not read", letter);
}

/* getopt_long leaves the culprit in the argument before optind, or in optopt for a short option. */
static fa_status refuse_option(const char *command, char **argv, int reason) {
  const char *argument = argv[optind - 1];
  char letter[] = {'-', (char)optopt, '\0'};
  const char *shown = strncmp(argument, "--", 2) && optopt > 0 && optopt < 256 ? letter : argument;
  if (reason == ':') return fail(FA_INVALID, "%s: the value behind it is missing", shown);
  return fail(
      FA_INVALID,
      "%s: no option of `fagen %s`, or the beginning of several; `fagen help %s` lists them", shown,
      command, command);
}

fa_status options_parse(cli_options *out, cli_command command, int argc, char **argv) {
  *out = (cli_options){.command = command,
                       .max_bytes = CLI_NOT_GIVEN,
                       .sizes = {.batch = CLI_NOT_GIVEN,
                                 .heads_q = CLI_NOT_GIVEN,
                                 .heads_kv = CLI_NOT_GIVEN,
                                 .seqlen_q = CLI_NOT_GIVEN,
                                 .seqlen_k = CLI_NOT_GIVEN,
                                 .seed = 1}};
  struct option table[NUM_OPTIONS + 1];
  make_table(table, command);
  const char *letters = command == CLI_COMPILE ? ":ho:j:" : command == CLI_EMIT ? ":ho:" : ":h";
  fa_status status = FA_OK;
  opterr = 0;
  optind = 0; /* begin anew, even after another command line */
  for (int letter; !status;) {
    letter = getopt_long(argc, argv, letters, table, NULL);
    if (letter == -1) break;
    int refused = letter == '?' || letter == ':';
    status = refused ? refuse_option(argv[0], argv, letter) : take_option(out, letter, optarg);
  }
  if (status) options_free(out);
  out->words = argv + optind;
  out->num_words = (size_t)(argc - optind);
  return status;
}

void options_free(cli_options *options) {
  for (size_t i = 0; i < options->sizes.num_params; ++i) free((char *)options->params[i].name);
  free(options->params);
  options->params = NULL;
  options->sizes.params = NULL;
  options->sizes.num_params = 0;
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

/* `explain` asks about a problem of today's size. `check` works pair by pair in float64, on lengths
   that fill no tile and differ, so that the alignment of causal is seen. */
static const cli_sizes explain_defaults = {
    .batch = 1, .heads_q = 32, .seqlen_q = 8192, .seqlen_k = 8192};
static const cli_sizes check_defaults = {
    .batch = 2, .heads_q = 4, .seqlen_q = 193, .seqlen_k = 257};

static int64_t given_or(int64_t given, int64_t otherwise) {
  return given == CLI_NOT_GIVEN ? otherwise : given;
}

static fa_status set_heads(cli_sizes *sizes, const cli_sizes *given, int64_t heads, int64_t group) {
  int64_t enough_groups = (heads + group - 1) / group;
  sizes->heads_kv = given->heads_kv != CLI_NOT_GIVEN  ? given->heads_kv
                    : given->heads_q != CLI_NOT_GIVEN ? given->heads_q / group
                                                      : enough_groups;
  sizes->heads_q = given_or(given->heads_q, sizes->heads_kv * group);
  if (sizes->heads_q == sizes->heads_kv * group) return FA_OK;
  if (given->heads_kv == CLI_NOT_GIVEN)
    return fail(FA_INVALID,
                "--heads: %" PRId64 "; a multiple of the spec's group %" PRId64 " is needed",
                sizes->heads_q, group);
  return fail(FA_INVALID,
              "--heads-kv: %" PRId64 " with --heads %" PRId64
              "; query heads are the spec's group %" PRId64 " times key/value heads",
              sizes->heads_kv, sizes->heads_q, group);
}

fa_status options_sizes(cli_sizes *out, const cli_options *options, const fa_spec *spec) {
  const cli_sizes *given = &options->sizes;
  const cli_sizes *defaults = options->command == CLI_CHECK ? &check_defaults : &explain_defaults;
  *out = *given;
  out->batch = given_or(given->batch, defaults->batch);
  out->seqlen_q = given_or(given->seqlen_q, defaults->seqlen_q);
  out->seqlen_k = given_or(given->seqlen_k, given_or(given->seqlen_q, defaults->seqlen_k));
  return set_heads(out, given, defaults->heads_q, spec->group);
}
