/* progress.c: one line that is rewritten on a terminal, a line every few seconds elsewhere. */
#define _POSIX_C_SOURCE 200809L
#include "train_text.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(progress *p) {
  *p = (progress){.terminal = isatty(STDOUT_FILENO)};
  p->start = p->last_print = seconds_now();
}

/* Until the steps or the seconds run out, whichever comes first. */
static double seconds_left(const progress *p, const train_options *options, double elapsed) {
  double left = INFINITY;
  if (options->steps) left = (double)(options->steps - p->step) * elapsed / (double)p->step;
  if (options->seconds) left = fmin(left, (double)options->seconds - elapsed);
  return fmax(left, 0);
}

void progress_step(progress *p, const train_options *options, double loss) {
  const double terminal_pause = 0.1, log_pause = 3;
  const int64_t smoothed_steps = 25;
  p->step++;
  p->tokens += options->batch * options->context;
  p->smoothed +=
      (loss - p->smoothed) / (double)(p->step < smoothed_steps ? p->step : smoothed_steps);

  double now = seconds_now(), elapsed = now - p->start;
  bool last = p->step == options->steps;
  double pause = p->terminal ? terminal_pause : log_pause;
  if (p->step > 1 && !last && now - p->last_print < pause) return;
  p->last_print = now;
  char of[32] = "";
  if (options->steps) snprintf(of, sizeof of, "/%lld", (long long)options->steps);
  int left = (int)seconds_left(p, options, elapsed);
  printf("%sstep %lld%s  loss %.3f  smoothed %.3f  %.0f tokens/s  %d:%02d left%s",
         p->terminal ? "\r" : "", (long long)p->step, of, loss, p->smoothed,
         (double)p->tokens / elapsed, left / 60, left % 60, p->terminal ? "\033[K" : "\n");
  fflush(stdout);
}

void progress_end(const progress *p, double first_loss) {
  double elapsed = seconds_now() - p->start;
  printf("%s%lld steps in %.1f s, %.0f tokens/s: loss from %.3f to %.3f (smoothed)\n",
         p->terminal ? "\r\033[K" : "", (long long)p->step, elapsed, (double)p->tokens / elapsed,
         first_loss, p->smoothed);
  fflush(stdout);
}
