/* cache_file.c: header, table of sections, key, sections; each text padded by zeros to a multiple
   of 8, at least one. Numbers are in the machine's order: an entry made elsewhere fails its
   checksum. */
#include "cache_file.h"

#include <stdlib.h>
#include <string.h>

#include "digest.h"

enum { ALIGNMENT = 8 };

typedef struct header {
  char magic[8];
  digest checksum; /* of all that follows */
  uint64_t file_bytes, key_bytes, num_sections;
} header;

typedef struct section_row {
  char name[CACHE_SECTION_NAME];
  uint64_t offset, bytes;
} section_row;

static const char magic[8] = "fagen\r\n1"; /* the last character is the version of this layout */
enum { CHECKED_FROM = offsetof(header, file_bytes) };

static uint64_t padded(uint64_t bytes) {
  return (bytes / ALIGNMENT + 1) * ALIGNMENT;
}

static digest checksum_of(const void *file, size_t bytes) {
  return digest_of((const char *)file + CHECKED_FROM, bytes - CHECKED_FROM);
}

void *cache_file_encode(size_t *bytes, const char *key, const cache_section *sections, int count) {
  header head = {.key_bytes = strlen(key), .num_sections = (uint64_t)count};
  section_row rows[CACHE_SECTIONS] = {{{0}, 0, 0}};
  uint64_t table_bytes = (uint64_t)count * sizeof *rows;
  head.file_bytes = sizeof head + table_bytes + padded(head.key_bytes);
  for (int i = 0; i < count; ++i) {
    memcpy(rows[i].name, sections[i].name, sizeof rows[i].name);
    rows[i].offset = head.file_bytes;
    rows[i].bytes = sections[i].bytes;
    head.file_bytes += padded(sections[i].bytes);
  }
  char *file = calloc(1, head.file_bytes);
  if (!file) return NULL;
  memcpy(head.magic, magic, sizeof magic);
  memcpy(file, &head, sizeof head);
  memcpy(file + sizeof head, rows, table_bytes);
  memcpy(file + sizeof head + table_bytes, key, head.key_bytes);
  for (int i = 0; i < count; ++i)
    if (rows[i].bytes) memcpy(file + rows[i].offset, sections[i].data, rows[i].bytes);
  head.checksum = checksum_of(file, head.file_bytes);
  memcpy(file, &head, sizeof head);
  *bytes = head.file_bytes;
  return file;
}

/* Where a text at `offset` ends with its padding, or 0 when the file does not hold one there as encode
   writes it. */
static uint64_t end_of_text(const char *file, size_t file_bytes, uint64_t offset, uint64_t count) {
  if (offset > file_bytes || count >= file_bytes - offset) return 0;
  uint64_t end = offset + padded(count);
  if (end > file_bytes) return 0;
  for (uint64_t i = offset + count; i < end; ++i)
    if (file[i]) return 0;
  return end;
}

/* Takes only what encode writes: a checksum can be forged, and what is laid out in one way alone
   leaves nothing else to be wrong. */
int cache_file_decode(cache_entry *out, void *file, size_t bytes) {
  header head;
  char *at = file;
  if (bytes < sizeof head) return 0;
  memcpy(&head, file, sizeof head);
  digest sum = checksum_of(file, bytes);
  if (memcmp(head.magic, magic, sizeof magic) || head.file_bytes != bytes ||
      memcmp(&sum, &head.checksum, sizeof sum) || head.num_sections > CACHE_SECTIONS)
    return 0;
  uint64_t key_at = sizeof head + head.num_sections * sizeof(section_row);
  uint64_t end = end_of_text(at, bytes, key_at, head.key_bytes);
  if (!end || strlen(at + key_at) != head.key_bytes) return 0;
  *out = (cache_entry){.file = file, .key = at + key_at, .num_sections = (int)head.num_sections};
  for (int i = 0; i < out->num_sections; ++i) {
    section_row row;
    memcpy(&row, at + sizeof head + (size_t)i * sizeof row, sizeof row);
    if (row.name[sizeof row.name - 1] || row.offset != end) return 0;
    end = end_of_text(at, bytes, row.offset, row.bytes);
    if (!end) return 0;
    memcpy(out->sections[i].name, row.name, sizeof row.name);
    out->sections[i].data = at + row.offset;
    out->sections[i].bytes = row.bytes;
  }
  return end == bytes;
}
