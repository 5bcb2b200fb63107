/* options.h: the command line after the command's name: options, and the arguments that name specs.
 */
#ifndef FAGEN_CLI_OPTIONS_H
#define FAGEN_CLI_OPTIONS_H

#include "fagen.h"
#include "sizes.h"

typedef enum cli_command {
  CLI_EMIT = 1,
  CLI_LIST = 2,
  CLI_EXPLAIN = 4,
  CLI_CHECK = 8,
  CLI_HELP = 16,
  CLI_COMPILE = 32,
  CLI_CACHE = 64,
  CLI_DOCTOR = 128
} cli_command;

/* What stands for a size that was not given: 0 is a size. */
enum { CLI_NOT_GIVEN = -1 };

enum { CLI_MOST_JOBS = 1024 };

typedef struct cli_options {
  cli_command command;
  int help;           /* --help */
  const char *folder; /* -o DIR; NULL = not given */
  char *const *words; /* the arguments that are no options */
  size_t num_words;
  int64_t jobs; /* 0 = not given */
  int no_cache;
  int64_t max_bytes; /* CLI_NOT_GIVEN, or what prune leaves */
  cli_sizes sizes;   /* as given: CLI_NOT_GIVEN where it was not */
  cli_param *params;
} cli_options;

/* Reads argv[1] and on; argv[0] is the command's name, and is reordered. FA_INVALID names option,
   value and range. The strings of argv are borrowed; options_free frees the rest. */
fa_status options_parse(cli_options *out, cli_command command, int argc, char **argv);
void options_free(cli_options *options);

/* The sizes of one spec: those given, and the command's defaults for the rest (see `fagen help`).
 */
fa_status options_sizes(cli_sizes *out, const cli_options *options, const fa_spec *spec);

#endif
