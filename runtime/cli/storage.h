/* storage.h: the values of f16, bf16, f32 and i32 memory as doubles. */
#ifndef FAGEN_CLI_STORAGE_H
#define FAGEN_CLI_STORAGE_H

#include <stddef.h>

/* The i32 of tables, beside the values of fa_dtype. */
enum { STORAGE_I32 = 32 };

/* The nearest value that the dtype can hold, ties to even; too large becomes infinite. */
double storage_round(double value, int dtype);

/* Bytes of an element. */
size_t storage_bytes(int dtype);

/* Writes the rounded value, or reads one. `at` needs no alignment. */
void storage_write(void *at, double value, int dtype);
double storage_read(const void *at, int dtype);

#endif
