/* structs.c: taking a caller's versioned struct. */
#include "structs.h"

#include <string.h>

/* A garbage size must not send anyone across memory. */
enum { LARGEST_TAIL = 4096 };

fa_status struct_check_out(const void *out, size_t bytes, const char *type) {
  if (!out) return fail(FA_INVALID, "%s: NULL; a pointer to the struct is required", type);
  size_t size;
  memcpy(&size, out, sizeof size);
  if (size < bytes)
    return fail(FA_BAD_STRUCT, "%s.size: %zu; must be at least %zu (use its INIT macro)", type,
                size, bytes);
  if (size > bytes + LARGEST_TAIL)
    return fail(FA_BAD_STRUCT, "%s.size: %zu; must be at most %zu", type, size,
                bytes + LARGEST_TAIL);
  return FA_OK;
}

fa_status struct_take(void *to, size_t bytes, const void *from, const char *type) {
  fa_status status = struct_check_out(from, bytes, type);
  if (status) return status;
  size_t size;
  memcpy(&size, from, sizeof size);
  const unsigned char *tail = (const unsigned char *)from;
  for (size_t i = bytes; i < size; ++i)
    if (tail[i])
      return fail(FA_BAD_STRUCT, "%s: byte %zu is set; this library knows the first %zu only", type,
                  i, bytes);
  memcpy(to, from, bytes);
  return FA_OK;
}
