/* table.h: the rows that `explain` prints: a label, then a text that may take several lines. */
#ifndef FAGEN_CLI_TABLE_H
#define FAGEN_CLI_TABLE_H

#include <stdint.h>

/* A heading, after an empty line. */
void table_heading(const char *heading);

/* Breaks the text at blanks so that it stays within 100 columns. */
void table_row(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "1048576 bytes (1 MiB)". */
typedef struct amount {
  char text[64];
} amount;
amount amount_of_bytes(int64_t bytes);

/* "549755813888 (549.8 GFLOP)". */
amount amount_of_flops(int64_t flops);

#endif
