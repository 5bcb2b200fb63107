/* cli.h: what the commands of the program fagen share: exit codes and how a failure is told. */
#ifndef FAGEN_CLI_CLI_H
#define FAGEN_CLI_CLI_H

#include "fagen.h"
#include "options.h"
#include "runtime/log.h"

enum {
  CLI_OK = 0,
  CLI_WRONG = 1,      /* a wrong result, a failed build, output that could not be written */
  CLI_BAD_INPUT = 2,  /* a word, option or number that is not allowed */
  CLI_CANNOT_RUN = 3, /* right, but this machine or version cannot do it */
};

/* The exit code that stands for a status. */
int cli_exit_code(fa_status status);

/* Prints this thread's message on stderr; gives the status's exit code. */
int cli_fail(fa_status status);

/* The exit code of a command that went through several specs: 1 if any gave 1, else 2, else 3. */
int cli_worst(int code, int next);

/* Makes the folder of -o, NULL: none. CLI_OK, or CLI_BAD_INPUT after telling why. */
int cli_make_folder(const char *folder);

/* The folder of the user's templates, FA_TEMPLATE_DIR; NULL when unset or empty. */
const char *cli_overlay(void);

/* What FA_LOG asks for, on stderr. */
log_sink cli_log(void);

/* The context that runs `target` (FA_TARGET_BEST: whatever is best here), and never another. */
fa_status cli_open(fa_context **out, int target);

/* The commands. Each gives the exit code. */
int cli_emit(const cli_options *options);
int cli_list(const cli_options *options);
int cli_explain(const cli_options *options);
int cli_compile(const cli_options *options);
int cli_cache(const cli_options *options);
int cli_doctor(const cli_options *options);

#endif
