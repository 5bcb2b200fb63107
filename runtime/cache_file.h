/* cache_file.h: the bytes of a cache entry. */
#ifndef FAGEN_RUNTIME_CACHE_FILE_H
#define FAGEN_RUNTIME_CACHE_FILE_H

#include "cache.h"

/* The file of an entry: yours, free(). NULL: out of memory. */
void *cache_file_encode(size_t *bytes, const char *key, const cache_section *sections, int count);

/* Whether `file`, from malloc, is a whole and right entry; *out then owns it. */
int cache_file_decode(cache_entry *out, void *file, size_t bytes);

#endif
