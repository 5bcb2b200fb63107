/* fuzz_arguments.c: command lines. The first byte chooses the command, the rest are its arguments, one
   a line. */
#include <string.h>

#include "expand.h"
#include "fuzz.h"
#include "options.h"

enum { MOST_ARGUMENTS = 64 };

static const cli_command commands[] = {CLI_EMIT, CLI_LIST,    CLI_EXPLAIN, CLI_CHECK,
                                       CLI_HELP, CLI_COMPILE, CLI_CACHE,   CLI_DOCTOR};

static int split(char **argv, char *text) {
  int count = 1;
  for (char *line = text; line && count < MOST_ARGUMENTS;) {
    argv[count++] = strsep(&line, "\n");
  }
  return count;
}

static void read_specs(const cli_options *options) {
  expand_list list;
  if (expand_arguments(&list, options->words, options->num_words)) return;
  FUZZ_CHECK(list.count <= EXPAND_MAX_SPECS);
  for (size_t i = 0; i < list.count && i < 16; ++i) {
    fa_spec spec = FA_SPEC_INIT;
    cli_sizes sizes;
    if (!fa_spec_parse(&spec, list.specs[i]) && !options_sizes(&sizes, options, &spec))
      FUZZ_CHECK(sizes.heads_q >= 0 && sizes.seqlen_q >= 0);
  }
  expand_free(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char *argv[MOST_ARGUMENTS + 1] = {"command"};
  cli_options options;
  if (!bytes) return 0;
  char *text = fuzz_text(data + 1, bytes - 1);
  int argc = split(argv, text);
  cli_command command = commands[data[0] % (sizeof commands / sizeof *commands)];
  if (!options_parse(&options, command, argc, argv)) {
    FUZZ_CHECK(options.num_words < MOST_ARGUMENTS);
    read_specs(&options);
    options_free(&options);
  } else {
    FUZZ_CHECK(*fa_error_message());
  }
  free(text);
  return 0;
}
