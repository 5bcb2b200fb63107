/* structs.h: taking a caller's versioned struct, whatever header it was compiled with. */
#ifndef FAGEN_GEN_STRUCTS_H
#define FAGEN_GEN_STRUCTS_H

#include "error.h"

/* Copies *from, whose first member is its size, into `to` of `bytes` bytes. FA_INVALID for NULL;
   FA_BAD_STRUCT when the size is below the first version's, or an unknown tail is not zero. */
fa_status struct_take(void *to, size_t bytes, const void *from, const char *type);

/* Checks an output struct's size, so that it may be filled up to `bytes`. */
fa_status struct_check_out(const void *out, size_t bytes, const char *type);

#endif
