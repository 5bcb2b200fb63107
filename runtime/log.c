/* log.c: lines on stderr, each written at once so that threads do not mix theirs. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(log_level level, log_level needed, const char *format, ...) {
  char text[1024];
  if (level < needed) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "fagen: %s%s\n", needed == LOG_WARNINGS ? "warning: " : "", text);
}
