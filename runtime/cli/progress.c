/* progress.c: the progress line of the command line tool, which has one thread. */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const double quiet_seconds = 0.5;

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
  if (!isatty(STDERR_FILENO)) return;
  if (!line.started) {
    line.started = 1;
    line.percent = -1;
    line.since = now();
  }
  int percent = (int)(100 * done);
  if (percent == line.percent || now() - line.since < quiet_seconds) return;
  line.percent = percent;
  fprintf(stderr, "\r%s %3d %%", what, percent);
}

void progress_end(void) {
  if (line.started && line.percent >= 0) fputs("\r\033[K", stderr);
  line.started = 0;
}
