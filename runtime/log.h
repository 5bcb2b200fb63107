/* log.h: what the library tells beside its statuses: nothing when all is well, unless asked. */
#ifndef FAGEN_RUNTIME_LOG_H
#define FAGEN_RUNTIME_LOG_H

#include "fagen.h"

typedef enum log_level {
  LOG_OFF,
  LOG_WARNINGS = FA_LOG_WARN,
  LOG_INFO = FA_LOG_INFO,
  LOG_DEBUG = FA_LOG_DEBUG
} log_level;

/* Where lines go. All zero: nowhere. */
typedef struct log_sink {
  log_level level;
  fa_log_function write; /* NULL: stderr */
  void *user;
} log_sink;

static inline log_sink log_to_stderr(log_level level) {
  log_sink to = {level, NULL, NULL};
  return to;
}

/* Sets the level from a word, or with NULL from FA_LOG, or else to warnings. FA_INVALID. */
fa_status log_choose(log_sink *out, const char *word);

/* Writes one line when the sink's level includes `needed`. */
void log_line(log_sink to, log_level needed, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
