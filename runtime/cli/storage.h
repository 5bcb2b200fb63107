/* storage.h: the values of f16, bf16 and f32 memory as doubles. */
#ifndef FAGEN_CLI_STORAGE_H
#define FAGEN_CLI_STORAGE_H

#include <stddef.h>

/* The nearest value that the fa_dtype can hold, ties to even; too large becomes infinite. */
double storage_round(double value, int dtype);

/* Bytes of an element. */
size_t storage_bytes(int dtype);

/* Writes the rounded value, or reads one. `at` needs no alignment. */
void storage_write(void *at, double value, int dtype);
double storage_read(const void *at, int dtype);

#endif
