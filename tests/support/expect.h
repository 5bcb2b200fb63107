/* expect.h: a status, and the sentence that comes with it. Brings in cmocka.
   A test that needs gen/error.h includes it first: cmocka has a macro of the name `fail`. */
#ifndef FAGEN_TESTS_SUPPORT_EXPECT_H
#define FAGEN_TESTS_SUPPORT_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fagen.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Fails, with the library's message, unless the call succeeds. */
#define expect_ok(call) expect_ok_at(call, #call, __FILE__, __LINE__)

/* Fails unless the call gives `status` and leaves a message with every part of `words`, which are
   divided by "|": expect_refused(f(x), FA_INVALID, "dim_qk|4|8 to 256"). */
#define expect_refused(call, status, words) \
  expect_refused_at(call, status, words, #call, __FILE__, __LINE__)

void expect_ok_at(fa_status got, const char *call, const char *file, int line);
void expect_refused_at(fa_status got, fa_status wanted, const char *words, const char *call,
                       const char *file, int line);

/* Fails unless `text` has every part of `words`; what names the case. */
void expect_words(const char *what, const char *text, const char *words);

/* Fails, showing the first line that differs, unless the texts are the same. */
void expect_same_text(const char *what, const char *got, const char *wanted);

/* A cmocka group setup: a program that hangs is ended by a signal. */
int expect_to_end(void **state);

#endif
