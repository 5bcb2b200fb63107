/* cli.c: what the commands share: exit codes, messages, the overlay and the context. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "files.h"
#include "runtime/context.h"

int cli_exit_code(fa_status status) {
  switch (status) {
  case FA_OK:
    return CLI_OK;
  case FA_INVALID:
    return CLI_BAD_INPUT;
  case FA_UNSUPPORTED:
  case FA_NO_NVRTC:
  case FA_DRIVER:
  case FA_NO_DRIVER:
  case FA_NO_MEMORY:
    return CLI_CANNOT_RUN;
  case FA_BAD_STRUCT:
  case FA_CAPTURE:
  case FA_TEMPLATE:
  case FA_COMPILE:
    break;
  }
  return CLI_WRONG;
}

int cli_fail(fa_status status) {
  fprintf(stderr, "fagen: %s\n", fa_error_message());
  return cli_exit_code(status);
}

int cli_worst(int code, int next) {
  if (code == CLI_OK || next == CLI_OK) return code + next;
  return code < next ? code : next;
}

int cli_make_folder(const char *folder) {
  int error = folder ? files_make_folder(folder) : 0;
  if (!error) return CLI_OK;
  fprintf(stderr, "fagen: --output: '%s'; a folder that can be made is needed: %s\n", folder,
          strerror(error));
  return CLI_BAD_INPUT;
}

log_sink cli_log(void) {
  log_sink log = log_to_stderr(LOG_OFF);
  log_choose(&log, NULL);
  return log;
}

const char *cli_overlay(void) {
  return context_template_dir(NULL);
}

fa_status cli_open(fa_context **out, int target) {
  fa_options options = FA_OPTIONS_INIT;
  options.backend = target == FA_TARGET_BEST  ? FA_BACKEND_BEST
                    : target == FA_TARGET_CPU ? FA_CPU
                                              : FA_CUDA;
  return fa_context_create(out, &options);
}
