/* pairs.h: how many pairs of query row and key a mask leaves visible. */
#ifndef FAGEN_CLI_PAIRS_H
#define FAGEN_CLI_PAIRS_H

#include "fagen.h"
#include "sizes.h"

typedef struct visible_pairs {
  int64_t count; /* of one head of one batch entry */
  int known;     /* 0: count is all pairs, and `how` says why no better is known */
  char how[256]; /* the sum with its numbers, or how else the count was found */
} visible_pairs;

/* keep is that of render_result, or NULL when the spec could not be rendered. The causal mask has a
   closed form; any other is asked pair by pair as long as that is a matter of seconds. */
fa_status pairs_count(visible_pairs *out, const fa_spec *spec, const cli_sizes *sizes,
                      const char *keep);

#endif
