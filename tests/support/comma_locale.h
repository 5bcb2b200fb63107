/* comma_locale.h: a locale in which a half is written 0,5. */
#ifndef FAGEN_TESTS_SUPPORT_COMMA_LOCALE_H
#define FAGEN_TESTS_SUPPORT_COMMA_LOCALE_H

#include "overlay.h"

/* Compiles German's into the folder and sets it; 0 when this system lacks localedef or its sources.
   setlocale(LC_ALL, "C") ends it. */
int comma_locale_set(const overlay *folder);

#endif
