/* log.h: what the library tells on stderr: nothing when all is well, unless asked. */
#ifndef FAGEN_RUNTIME_LOG_H
#define FAGEN_RUNTIME_LOG_H

typedef enum log_level {
  LOG_OFF,
  LOG_WARNINGS, /* the default: what works but not as meant, such as an unusable cache folder */
  LOG_INFO      /* also a line for each kernel */
} log_level;

/* Writes one line when `level` includes `needed`. */
void log_line(log_level level, log_level needed, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
