/* cubin.h: a compiled kernel file, its entries, and what the compiler says of each. */
#ifndef FAGEN_RUNTIME_CUBIN_H
#define FAGEN_RUNTIME_CUBIN_H

#include "fagen.h"

enum { CUBIN_ENTRIES = 12, CUBIN_NAME = FA_NAME_MAX + 32 };

typedef struct cubin_entry {
  char name[CUBIN_NAME];
  int registers;    /* a thread; 0 when the compiler did not say */
  int shared_bytes; /* static, a block */
  int spill_bytes;  /* stored and loaded, a thread */
  int serialised;   /* number of ptxas' warning of wgmma products one by one, as 7510; 0: none */
} cubin_entry;

typedef struct cubin {
  void *image;
  size_t bytes;
  cubin_entry entries[CUBIN_ENTRIES];
  int num_entries;
} cubin;

/* Fills the entries from the image, and their numbers from ptxas' -v report in the compiler's log.
   FA_COMPILE: the image is no cubin, or has no entry. */
fa_status cubin_read_entries(cubin *of, const char *log);

/* The entries as text, and back. The text is yours: free(). NULL: out of memory. */
char *cubin_print_entries(const cubin *of);
int cubin_parse_entries(cubin *to, const char *text); /* whether there is at least one */

void cubin_free(cubin *of);

#endif
