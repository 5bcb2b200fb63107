/* specs.h: the specs of a command line, canonical, each once, with a target that is named. */
#ifndef FAGEN_CLI_SPECS_H
#define FAGEN_CLI_SPECS_H

#include "fagen.h"

typedef struct spec_list {
  fa_spec *items;
  size_t count;
} spec_list;

/* Reads the arguments by the rules of expand.h. A spec without a target gets the best one that this
   machine runs. On failure *out is empty. FA_INVALID names the word; FA_TEMPLATE when the overlay
   cannot be read. */
fa_status spec_list_read(spec_list *out, char *const *arguments, size_t count);
void spec_list_free(spec_list *list);

#endif
