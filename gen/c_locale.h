/* c_locale.h: numbers as C spells them, whatever locale the program has set: with a decimal comma,
   Lua would write 0,5f and libtcc would read 0.5f as 0. This thread only, and only in between. */
#ifndef FAGEN_GEN_C_LOCALE_H
#define FAGEN_GEN_C_LOCALE_H

#include <locale.h>

/* Gives what c_locale_leave takes. */
static inline locale_t c_locale_enter(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static inline void c_locale_leave(locale_t before) {
  locale_t used = uselocale(before);
  if (used != before) freelocale(used); /* the same when memory was out */
}

#endif
