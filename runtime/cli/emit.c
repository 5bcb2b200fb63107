/* emit.c: `fagen emit`: the kernel and its launch plan as files, or the kernel on stdout. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "files.h"
#include "gen/render.h"
#include "specs.h"

static int write_file(const char *folder, const char *name, const char *suffix, const char *text) {
  char file[FA_NAME_MAX + 16];
  snprintf(file, sizeof file, "%s%s", name, suffix);
  int error = files_write(folder, file, text, strlen(text));
  if (error) {
    fprintf(stderr, "fagen: %s/%s: %s\n", folder, file, strerror(error));
    return CLI_WRONG;
  }
  fprintf(stderr, "wrote %s/%s\n", folder, file);
  return CLI_OK;
}

static int emit_one(const fa_spec *spec, const char *folder) {
  render_result rendered;
  fa_status status = render_spec(&rendered, spec, cli_overlay());
  if (status) return cli_fail(status);
  int code = CLI_OK;
  if (folder) {
    const char *suffix = spec->target == FA_TARGET_CPU ? ".c" : ".cu";
    code = write_file(folder, rendered.name, suffix, rendered.kernel.text);
    if (!code) code = write_file(folder, rendered.name, "_launch.c", rendered.launch.text);
  } else {
    fputs(rendered.kernel.text, stdout);
  }
  render_free(&rendered);
  return code;
}

int cli_emit(const cli_options *options) {
  spec_list specs;
  fa_status status = spec_list_read(&specs, options->words, options->num_words);
  if (status) return cli_fail(status);
  int code = cli_make_folder(options->folder);
  for (size_t i = 0; !code && i < specs.count; ++i)
    code = emit_one(&specs.items[i], options->folder);
  spec_list_free(&specs);
  return code;
}
