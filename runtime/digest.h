/* digest.h: 128 bits that stand for bytes: XXH3, against accidents and not against enemies. */
#ifndef FAGEN_RUNTIME_DIGEST_H
#define FAGEN_RUNTIME_DIGEST_H

#include <stddef.h>
#include <stdint.h>

typedef struct digest {
  uint64_t low, high;
} digest;

enum { DIGEST_HEX = 33 }; /* characters of a digest in words, the final 0 included */

digest digest_of(const void *bytes, size_t count);
void digest_print(char out[DIGEST_HEX], digest value);

/* The digest of a list of named texts, in the order they are added. */
typedef struct digest_list digest_list;
digest_list *digest_list_new(void); /* NULL: out of memory */
void digest_list_add(digest_list *to, const char *name, const void *bytes, size_t count);
digest digest_list_end(digest_list *list); /* frees it */

#endif
