/* log.c: lines for stderr or for the program, each given at once so that threads do not mix theirs. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static const struct {
  const char *word;
  log_level level;
} words[] = {{"off", LOG_OFF}, {"warn", LOG_WARNINGS}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}};

fa_status log_choose(log_sink *out, const char *word) {
  if (!word) word = getenv("FA_LOG");
  out->level = LOG_WARNINGS;
  if (!word || !*word) return FA_OK;
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (!strcmp(words[i].word, word)) {
      out->level = words[i].level;
      return FA_OK;
    }
  return fail(FA_INVALID, "log: '%s'; must be \"off\", \"warn\", \"info\" or \"debug\"", word);
}

void log_line(log_sink to, log_level needed, const char *format, ...) {
  char text[1024];
  if (to.level < needed) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (to.write)
    to.write(to.user, needed, text);
  else
    fprintf(stderr, "fagen: %s%s\n", needed == LOG_WARNINGS ? "warning: " : "", text);
}
