/* expect.c: see expect.h. */
#include "expect.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The first part of `words` that text lacks, copied to `part`; NULL when it has all. */
static const char *missing_part(char *part, size_t bytes, const char *text, const char *words) {
  for (const char *at = words; *at;) {
    size_t length = strcspn(at, "|");
    snprintf(part, bytes, "%.*s", (int)length, at);
    if (!strstr(text, part)) return part;
    at += length + (at[length] == '|');
  }
  return NULL;
}

void expect_ok_at(fa_status got, const char *call, const char *file, int line) {
  if (got == FA_OK) return;
  print_error("%s: %s: %s\n", call, fa_status_name(got), fa_error_message());
  _fail(file, line);
}

void expect_refused_at(fa_status got, fa_status wanted, const char *words, const char *call,
                       const char *file, int line) {
  char part[256];
  if (got != wanted) {
    print_error("%s: got %s (%s), wanted %s with '%s'\n", call, fa_status_name(got),
                got ? fa_error_message() : "no message", fa_status_name(wanted), words);
    _fail(file, line);
  }
  if (missing_part(part, sizeof part, fa_error_message(), words)) {
    print_error("%s: '%s' lacks '%s'\n", call, fa_error_message(), part);
    _fail(file, line);
  }
}

void expect_words(const char *what, const char *text, const char *words) {
  char part[256];
  if (missing_part(part, sizeof part, text, words))
    fail_msg("%s: '%s' lacks '%s'", what, text, part);
}

void expect_same_text(const char *what, const char *got, const char *wanted) {
  for (int line = 1;; ++line) {
    size_t got_length = strcspn(got, "\n"), wanted_length = strcspn(wanted, "\n");
    size_t both = got_length + (got[got_length] != '\0');
    if (got_length != wanted_length || strncmp(got, wanted, both))
      fail_msg("%s:%d\n  got    '%.*s'\n  wanted '%.*s'", what, line, (int)got_length, got,
               (int)wanted_length, wanted);
    if (!got[got_length]) return;
    got += both;
    wanted += both;
  }
}

/* A program that hangs, where no ctest stands beside it, is ended too; its own alarm may be sooner. */
__attribute__((constructor)) static void watch(void) {
  alarm(900);
}

int expect_to_end(void **state) {
  (void)state;
  alarm(120);
  return 0;
}
