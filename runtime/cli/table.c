/* table.c: rows of label and text, and amounts with their units. */
#include "table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 100, LABEL_COLUMNS = 22 };

void table_heading(const char *heading) {
  printf("\n%s\n", heading);
}

/* The length of the longest line that fits and ends at a blank; a longer word stands alone. */
static size_t line_length(const char *text, size_t room) {
  size_t length = strlen(text);
  if (length <= room) return length;
  for (size_t i = room; i > 0; --i)
    if (text[i] == ' ') return i;
  return strcspn(text, " ");
}

void table_row(const char *label, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char *rest = text;
  do {
    size_t length = line_length(rest, COLUMNS - LABEL_COLUMNS);
    printf("  %-*s%.*s\n", LABEL_COLUMNS - 2, label, (int)length, rest);
    rest += length;
    rest += strspn(rest, " ");
    label = "";
  } while (*rest);
}

/* The value in the largest unit that leaves at least 1 of it. */
static amount amount_in(int64_t value, const char *word, double base, const char *const *units) {
  double in_unit = (double)value;
  int unit = -1;
  for (; in_unit >= base && units[unit + 1]; ++unit) in_unit /= base;
  amount out;
  if (unit < 0)
    snprintf(out.text, sizeof out.text, "%" PRId64 "%s", value, word);
  else
    snprintf(out.text, sizeof out.text, "%" PRId64 "%s (%.4g %s)", value, word, in_unit,
             units[unit]);
  return out;
}

amount amount_of_bytes(int64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", NULL};
  return amount_in(bytes, " bytes", 1024, units);
}

amount amount_of_flops(int64_t flops) {
  static const char *const units[] = {"kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", NULL};
  return amount_in(flops, "", 1000, units);
}
