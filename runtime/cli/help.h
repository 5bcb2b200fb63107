/* help.h: what `fagen help` prints. */
#ifndef FAGEN_CLI_HELP_H
#define FAGEN_CLI_HELP_H

#include "options.h"

/* The page of a command; CLI_HELP is the overview. */
void help_print(cli_command command);

#endif
