/* expand.h: the arguments of a command line -> one string of words for each spec.
   An argument with a blank in it is a spec of its own; a run of arguments without one is one spec.
   A word may list alternatives, `fwd,bwd` or `d64,128`: the product of all of them is taken, the
   last word's alternatives changing fastest. An alternative that begins with a digit takes the
   letters of the first, so that `d64,128` is d64 and d128. */
#ifndef FAGEN_CLI_EXPAND_H
#define FAGEN_CLI_EXPAND_H

#include "fagen.h"

enum {
  EXPAND_MAX_SPECS = 10000, /* a slip such as one comma too many should not run for hours */
  EXPAND_MAX_WORDS = 64
};

typedef struct expand_list {
  char **specs; /* words with one space between */
  size_t count;
} expand_list;

/* On failure *out is empty. FA_INVALID names the word, FA_NO_MEMORY. */
fa_status expand_arguments(expand_list *out, char *const *arguments, size_t count);
void expand_free(expand_list *list);

#endif
