/* digest.c: the one place that sees xxHash; it is compiled in, so that nothing is needed at run
   time. */
#define XXH_INLINE_ALL
#include "digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct digest_list {
  XXH3_state_t *state;
};

static digest of_xxh(XXH128_hash_t hash) {
  return (digest){hash.low64, hash.high64};
}

digest digest_of(const void *bytes, size_t count) {
  return of_xxh(XXH3_128bits(bytes, count));
}

void digest_print(char out[DIGEST_HEX], digest value) {
  snprintf(out, DIGEST_HEX, "%016" PRIx64 "%016" PRIx64, value.high, value.low);
}

digest_list *digest_list_new(void) {
  digest_list *list = malloc(sizeof *list);
  if (list && !(list->state = XXH3_createState())) {
    free(list);
    list = NULL;
  }
  if (list) XXH3_128bits_reset(list->state);
  return list;
}

void digest_list_add(digest_list *to, const char *name, const void *bytes, size_t count) {
  const uint64_t lengths[] = {strlen(name), count}; /* no two lists run together alike */
  XXH3_128bits_update(to->state, lengths, sizeof lengths);
  XXH3_128bits_update(to->state, name, strlen(name));
  XXH3_128bits_update(to->state, bytes, count);
}

digest digest_list_end(digest_list *list) {
  digest value = of_xxh(XXH3_128bits_digest(list->state));
  XXH3_freeState(list->state);
  free(list);
  return value;
}
