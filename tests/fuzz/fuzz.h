/* fuzz.h: the entry points of a fuzz target, as libFuzzer wants them. Linked with libFuzzer, or with
   driver.c where there is no clang. Both take: [-seed=N] [-runs=N] [-max_total_time=SECONDS]
   [-dict=FILE] FOLDER-OR-FILE... */
#ifndef FAGEN_TESTS_FUZZ_FUZZ_H
#define FAGEN_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What must hold for any input. */
#define FUZZ_CHECK(condition)                                         \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                        \
    }                                                                 \
  } while (0)

/* The input as a string: free(). What follows a 0 is not seen. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes) {
  char *text = malloc(bytes + 1);
  FUZZ_CHECK(text);
  for (size_t i = 0; i < bytes; ++i) text[i] = (char)data[i];
  text[bytes] = '\0';
  return text;
}

#endif
