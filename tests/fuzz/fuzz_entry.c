/* fuzz_entry.c: files of the disk cache. One that was not written by us is not taken for an entry,
   whatever it says; and one that has a right checksum all the same does not crash who reads it. */
#include <string.h>

#include "fuzz.h"
#include "runtime/cache_file.h"
#include "runtime/cubin.h"
#include "runtime/digest.h"

/* Where cache_file.c keeps the checksum. */
enum { CHECKSUM_AT = 8, CHECKED_FROM = 24 };

static void *copy_of(const uint8_t *data, size_t bytes) {
  void *file = malloc(bytes + 1);
  FUZZ_CHECK(file);
  if (bytes) memcpy(file, data, bytes);
  return file;
}

static void give_checksum(void *file, size_t bytes) {
  if (bytes < CHECKED_FROM) return;
  digest sum = digest_of((char *)file + CHECKED_FROM, bytes - CHECKED_FROM);
  memcpy((char *)file + CHECKSUM_AT, &sum, sizeof sum);
}

/* Reads all that a build would. */
static void use(const cache_entry *entry) {
  size_t total = strlen(entry->key);
  cubin code = {.image = NULL};
  for (int i = 0; i < entry->num_sections; ++i) total += strlen(entry->sections[i].data);
  const cache_section *list = cache_find(entry, "entries"), *image = cache_find(entry, "cubin");
  if (list && cubin_parse_entries(&code, list->data)) {
    char *text = cubin_print_entries(&code);
    free(text);
  }
  if (image) {
    code.bytes = image->bytes;
    code.image = copy_of(image->data, image->bytes);
    cubin_read_entries(&code, list ? list->data : "");
    cubin_free(&code);
  }
  FUZZ_CHECK(total < SIZE_MAX);
}

static int is_ours(const cache_entry *entry, const uint8_t *data, size_t bytes) {
  size_t again;
  void *file = cache_file_encode(&again, entry->key, entry->sections, entry->num_sections);
  int same = file && again == bytes && !memcmp(file, data, bytes);
  free(file);
  return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  cache_entry entry;
  void *file = copy_of(data, bytes);
  if (cache_file_decode(&entry, file, bytes)) FUZZ_CHECK(is_ours(&entry, data, bytes));
  give_checksum(file, bytes);
  if (cache_file_decode(&entry, file, bytes)) use(&entry);
  free(file);
  return 0;
}
