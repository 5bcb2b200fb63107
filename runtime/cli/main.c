/* main.c: the program fagen: finds the command, runs it, and sees that its output arrived. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "cli.h"
#include "help.h"
#include "specs.h"

static int check(const cli_options *options) {
  spec_list specs;
  fa_status status = spec_list_read(&specs, options->words, options->num_words);
  if (status) return cli_fail(status);
  int code = CLI_OK;
  for (size_t i = 0; i < specs.count; ++i) {
    cli_sizes sizes;
    status = options_sizes(&sizes, options, &specs.items[i]);
    if (i) putchar('\n');
    int one = status ? cli_fail(status) : cli_check(&specs.items[i], &sizes, stdout);
    code = cli_worst(code, one);
  }
  spec_list_free(&specs);
  return code;
}

static int help(const cli_options *options);

static const struct command {
  const char *name;
  cli_command id;
  int (*run)(const cli_options *options);
} commands[] = {
    {"emit", CLI_EMIT, cli_emit},
    {"list", CLI_LIST, cli_list},
    {"explain", CLI_EXPLAIN, cli_explain},
    {"check", CLI_CHECK, check},
    {"compile", CLI_COMPILE, cli_compile},
    {"cache", CLI_CACHE, cli_cache},
    {"doctor", CLI_DOCTOR, cli_doctor},
    {"help", CLI_HELP, help},
};

static const char command_names[] = "emit, list, explain, check, compile, cache, doctor and help";

static const struct command *find_command(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; ++i)
    if (!strcmp(commands[i].name, name)) return &commands[i];
  fprintf(stderr, "fagen: '%s' is no command; there are %s\n", name, command_names);
  return NULL;
}

static int help(const cli_options *options) {
  if (options->num_words > 1) {
    fprintf(stderr, "fagen: '%s': `fagen help` takes one command\n", options->words[1]);
    return CLI_BAD_INPUT;
  }
  if (options->num_words == 0) {
    help_print(CLI_HELP);
    return CLI_OK;
  }
  const struct command *command = find_command(options->words[0]);
  if (!command) return CLI_BAD_INPUT;
  help_print(command->id);
  return CLI_OK;
}

static int run_command(const struct command *command, int argc, char **argv) {
  cli_options options;
  fa_status status = options_parse(&options, command->id, argc, argv);
  if (status) return cli_fail(status);
  int code = CLI_OK;
  if (options.help)
    help_print(command->id);
  else
    code = command->run(&options);
  options_free(&options);
  return code;
}

static int run(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "fagen: a command is needed: %s\n", command_names);
    return CLI_BAD_INPUT;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
    help_print(CLI_HELP);
    return CLI_OK;
  }
  if (!strcmp(argv[1], "--version")) {
    int version = fa_version();
    printf("fagen %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    return CLI_OK;
  }
  const struct command *command = find_command(argv[1]);
  return command ? run_command(command, argc - 1, argv + 1) : CLI_BAD_INPUT;
}

/* A standard stream that was closed by the caller must not become the first file that we open.
   Opened the wrong way round, so that using it still fails. */
static void hold_standard_streams(void) {
  for (int descriptor = 0; descriptor < 3; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", descriptor ? O_RDONLY : O_WRONLY) < 0)
      return;
}

/* A full disk or a reader that went away shows here at the latest. */
static int finish_output(int code) {
  int failed = ferror(stdout);
  errno = 0;
  if (fclose(stdout) == 0 && !failed) return code;
  fprintf(stderr, "fagen: the output could not be written%s%s\n", errno ? ": " : "",
          errno ? strerror(errno) : "");
  return code == CLI_OK ? CLI_WRONG : code;
}

int main(int argc, char **argv) {
  hold_standard_streams();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write, and told as such */
  return finish_output(run(argc, argv));
}
