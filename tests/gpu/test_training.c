/* test_training.c: the training example with its attention on a GPU learns as it does on cpu: the losses
   of the first 100 steps, from one seed, in one dtype. The text repeats each word, so that attention
   decides: what rounds differently changes a loss by 0.03 %, a scale, mask or gradient that is
   wrong by 4 % and more. */
#include "numeric/support.h"
#include "support/overlay.h"

#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 100, TEXT_BYTES = 20000, LONGEST_PAIR = 32 };

static const double most = 0.02;

static overlay folder;

/* The program is above the folder of tests, or beside this one. */
static const char *find_program(void) {
  static const char *const places[] = {"../train_text", "train_text"};
  static char path[4200];
  char own[4096] = "";
  if (readlink("/proc/self/exe", own, sizeof own - 1) < 0) fail_msg("no /proc/self/exe");
  const char *beside = dirname(own);
  for (size_t i = 0; i < COUNT_OF(places); ++i) {
    snprintf(path, sizeof path, "%s/%s", beside, places[i]);
    if (!access(path, X_OK)) return path;
  }
  fail_msg("train_text is neither in %s nor above it", beside);
  return NULL;
}

static void write_text(void) {
  static const char *const words[] = {"attention", "softmax", "query",    "key",
                                      "value",     "head",    "row",      "tile",
                                      "mask",      "scale",   "gradient", "block"};
  static char text[TEXT_BYTES + LONGEST_PAIR];
  uint32_t state = 1;
  for (size_t used = 0; used < TEXT_BYTES;) {
    state = state * 1664525u + 1013904223u;
    const char *word = words[(state >> 16) % COUNT_OF(words)];
    used += (size_t)snprintf(text + used, LONGEST_PAIR, "%s %s\n", word, word);
  }
  overlay_write(&folder, "text", text);
}

static int begin(void **state) {
  int code = support_begin(state);
  overlay_create(&folder);
  write_text();
  return code;
}

static int end(void **state) {
  overlay_remove(&folder);
  return support_end(state);
}

static void train(double losses[STEPS], const char *target, const char *dtype) {
  char command[8192];
  snprintf(command, sizeof command,
           "'%s' --steps %d --seed 1 --target %s --dtype %s --losses '%s/losses' '%s/text' "
           ">'%s/log' 2>&1",
           find_program(), STEPS, target, dtype, folder.path, folder.path, folder.path);
  if (system(command)) {
    char *log = read_whole_file(overlay_path(&folder, "log"));
    fail_msg("train_text --target %s --dtype %s: %s", target, dtype, log);
  }
  char *lines = read_whole_file(overlay_path(&folder, "losses")), *line = lines;
  for (int step = 0; step < STEPS; ++step) {
    int number = 0;
    if (sscanf(line, "%d %lf", &number, &losses[step]) != 2 || number != step + 1)
      fail_msg("step %d: '%.40s'", step + 1, line);
    line = strchr(line, '\n') + 1;
  }
  free(lines);
}

static void assert_losses_near(const char *dtype) {
  double on_cpu[STEPS], here[STEPS], worst = 0;
  char target[FA_NAME_MAX];
  int at = 0;
  target_words(target, "cpu");
  train(on_cpu, "cpu", dtype);
  train(here, target, dtype);
  for (int step = 0; step < STEPS; ++step) {
    double off = fabs(here[step] / on_cpu[step] - 1);
    if (!(off <= worst)) worst = off, at = step;
  }
  print_message(
      "  %s: loss %.4f to %.4f; farthest from cpu at step %d: %.6f, there %.6f, %.3f %%\n", dtype,
      here[0], here[STEPS - 1], at + 1, here[at], on_cpu[at], 100 * worst);
  if (!(worst <= most)) fail_msg("%.3f %% is more than %.0f %%", 100 * worst, 100 * most);
  if (!(here[STEPS - 1] < 0.5 * here[0])) fail_msg("nothing is learnt in %d steps", STEPS);
}

static void losses_in_bf16_are_those_of_cpu(void **state) {
  (void)state;
  assert_losses_near("bf16");
}

static void losses_in_f16_are_those_of_cpu(void **state) {
  (void)state;
  assert_losses_near("f16");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_in_bf16_are_those_of_cpu),
      cmocka_unit_test(losses_in_f16_are_those_of_cpu),
  };
  if (on_gpu()) return cmocka_run_group_tests(tests, begin, end);
  printf("SKIP test_training: FAGEN_TEST_TARGET names no GPU target\n");
  return 77;
}
