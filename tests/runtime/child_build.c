/* child_build.c: see child_build.h. */
#include "child_build.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/spec.h"

static int is_mapped(const char *library) {
  char line[4096];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, library) != NULL;
  if (maps) fclose(maps);
  return found;
}

static void build(child_outcome *out, const child_request *request) {
  fa_spec spec = FA_SPEC_INIT, canonical;
  cuda_binary binary = {.source = NULL};
  cuda_tools tools = {.template_dir = request->overlay, .nvrtc = request->nvrtc};
  out->status = fa_spec_parse(&spec, request->words);
  if (!out->status) out->status = spec_canonicalise(&canonical, &spec);
  if (!out->status) {
    tools.kept = cache_open(request->cache, log_to_stderr(LOG_WARNINGS));
    out->status = cuda_build_or_load(&binary, &canonical, &tools);
    cache_close(tools.kept);
  }
  out->nvrtc_was_opened = request->nvrtc && is_mapped(request->nvrtc);
  snprintf(out->message, sizeof out->message, "%s", fa_error_message());
  if (out->status) return;
  out->origin = binary.origin;
  out->render_ms = binary.render_ms;
  out->compile_ms = binary.compile_ms;
  out->read_ms = binary.read_ms;
  out->source = digest_of(binary.source, strlen(binary.source));
  out->code = digest_of(binary.code.image, binary.code.bytes);
  cuda_binary_free(&binary);
}

child child_start(const child_request *request) {
  int results[2], told[2];
  if (pipe(results) || pipe(told)) abort();
  child running = {fork(), results[0], told[0]};
  if (running.pid < 0) abort();
  if (!running.pid) {
    child_outcome out = {.origin = 0};
    dup2(told[1], 2);
    if (request->prepare) request->prepare(request->prepared);
    build(&out, request);
    if (write(results[1], &out, sizeof out) != sizeof out) abort();
    _exit(0);
  }
  close(results[1]);
  close(told[1]);
  return running;
}

child_outcome child_finish(child *running) {
  child_outcome out = {.status = FA_OK};
  int end = 0;
  ssize_t count = read(running->results, &out, sizeof out);
  waitpid(running->pid, &end, 0);
  if (count != sizeof out) out.died = WIFSIGNALED(end) ? WTERMSIG(end) : -1;
  count = read(running->told, out.told, sizeof out.told - 1);
  for (const char *at = out.told; count > 0 && (at = strchr(at, '\n')); ++at) ++out.warnings;
  close(running->results);
  close(running->told);
  return out;
}

child_outcome child_build(const child_request *request) {
  child running = child_start(request);
  return child_finish(&running);
}
