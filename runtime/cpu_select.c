/* cpu_select.c: picks the cpu primitives at run time. Compiled for the baseline, and takes no more
   than the addresses of the other tables before the processor has been asked. */
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu_ops.h"

extern const fa_cpu_ops cpu_ops_baseline;

#if defined(__x86_64__)

extern const fa_cpu_ops cpu_ops_avx2;
extern const fa_cpu_ops cpu_ops_avx512;

/* Not every compiler knows this one by name. */
static int has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* The builtin also asks whether the operating system saves the wide registers. */
static int has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static int has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#endif

static int has_baseline(void) {
  return 1;
}

typedef struct instruction_set {
  const char *name;
  const fa_cpu_ops *ops;
  int (*present)(void);
} instruction_set;

/* Fastest first; the last one is always present. */
static const instruction_set instruction_sets[] = {
#if defined(__x86_64__)
    {"avx512", &cpu_ops_avx512, has_avx512},
    {"avx2", &cpu_ops_avx2, has_avx2},
#endif
    {"baseline", &cpu_ops_baseline, has_baseline},
};

enum { INSTRUCTION_SETS = sizeof instruction_sets / sizeof instruction_sets[0] };

const fa_cpu_ops *cpu_ops_best(const char **name) {
  const instruction_set *set = instruction_sets;
  while (!set->present()) set++;
  if (name) *name = set->name;
  return set->ops;
}

const fa_cpu_ops *cpu_ops_named(const char *name) {
  for (int i = 0; i < INSTRUCTION_SETS; i++) {
    const instruction_set *set = &instruction_sets[i];
    if (strcmp(set->name, name) == 0) return set->present() ? set->ops : NULL;
  }
  return NULL;
}
