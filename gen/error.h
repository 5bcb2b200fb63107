/* error.h: the status a function returns, and the sentence it leaves for the person.
   One message a thread, overwritten by the next failure: nothing here allocates. */
#ifndef FAGEN_GEN_ERROR_H
#define FAGEN_GEN_ERROR_H

#include "fagen.h"

/* Sets this thread's message, gives back `status`: `return fail(FA_INVALID, "dim_qk: %d", d);` */
fa_status fail(fa_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As fail, keeping the message there is and putting "prefix: " before it. */
fa_status fail_in(fa_status status, const char *prefix);

#endif
