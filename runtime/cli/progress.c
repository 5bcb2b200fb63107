/* progress.c: the progress line of the command line tool, which one thread writes. */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const double quiet_seconds = 0.5;
enum { BAR_COLUMNS = 30 };

static struct {
  int started, percent;
  double since;
} line;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_show(const char *what, double done) {
  static const char full[] = "##############################",
                    none[] = "..............................";
  _Static_assert(sizeof full == BAR_COLUMNS + 1 && sizeof none == sizeof full, "one bar");
  if (!isatty(STDERR_FILENO)) return;
  if (!line.started) {
    line.started = 1;
    line.percent = -1;
    line.since = now();
  }
  int percent = (int)(100 * done);
  if (percent == line.percent || now() - line.since < quiet_seconds) return;
  line.percent = percent;
  int filled = percent * BAR_COLUMNS / 100;
  fprintf(stderr, "\r%s [%.*s%.*s] %3d %%\033[K", what, filled, full, BAR_COLUMNS - filled, none,
          percent);
}

void progress_end(void) {
  if (line.started && line.percent >= 0) fputs("\r\033[K", stderr);
  line.started = 0;
}
