/* target.c: see target.h. */
#include "target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const target_names[] = {
    [FA_TARGET_CPU] = "cpu", [FA_TARGET_SM80] = "sm80", [FA_TARGET_SM90] = "sm90"};

static int read_target(void) {
  const char *wanted = getenv("FAGEN_TEST_TARGET");
  if (!wanted || !*wanted) return FA_TARGET_CPU;
  for (int target = FA_TARGET_CPU; target <= FA_TARGET_SM90; ++target)
    if (!strcmp(wanted, target_names[target])) return target;
  fprintf(stderr, "FAGEN_TEST_TARGET: '%s'; must be cpu, sm80 or sm90\n", wanted);
  exit(2);
}

int target_of_tests(void) {
  static int target;
  if (!target) target = read_target();
  return target;
}

int on_gpu(void) {
  return target_of_tests() != FA_TARGET_CPU;
}

/* Copies `text` with every `from` replaced. */
static void replace(char out[FA_NAME_MAX], const char *text, const char *from, const char *to) {
  size_t length = 0;
  out[0] = '\0';
  for (const char *found; (found = strstr(text, from)); text = found + strlen(from))
    length += (size_t)snprintf(out + length, FA_NAME_MAX - length, "%.*s%s", (int)(found - text),
                               text, to);
  snprintf(out + length, FA_NAME_MAX - length, "%s", text);
}

void target_words(char out[FA_NAME_MAX], const char *words) {
  char on_the_target[FA_NAME_MAX];
  replace(on_the_target, words, "cpu", target_names[target_of_tests()]);
  replace(out, on_the_target, "f32", on_gpu() ? "f16" : "f32");
}

void target_name(char out[FA_NAME_MAX], const char *name, int arch) {
  char plain[FA_NAME_MAX], compiled_for[32];
  target_words(plain, name);
  snprintf(compiled_for, sizeof compiled_for, arch == 80 ? "sm80" : "sm80_cc%d", arch);
  replace(out, plain, "sm80", compiled_for);
}

int target_has(const char *dtype) {
  static int said;
  if (!on_gpu() || strcmp(dtype, "f32")) return 1;
  if (!said)
    print_message("f32 is left out: %s takes f16 and bf16\n", target_names[target_of_tests()]);
  said = 1;
  return 0;
}

double on_target(double on_cpu, double on_the_gpu) {
  return on_gpu() ? on_the_gpu : on_cpu;
}

void cpu_only(const char *reason) {
  if (!on_gpu()) return;
  print_message("skipped on %s: %s\n", target_names[target_of_tests()], reason);
  skip();
}
