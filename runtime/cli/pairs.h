/* pairs.h: how many pairs of query row and key a mask leaves visible, and how they lie in tiles. */
#ifndef FAGEN_CLI_PAIRS_H
#define FAGEN_CLI_PAIRS_H

#include "drawn.h"
#include "fagen.h"
#include "sizes.h"

/* What is known of a mask. */
typedef struct pairs_mask {
  const char *keep; /* that of render_result */
  const drawn_params *drawn;
  int64_t tile_rows, tile_keys;
} pairs_mask;

/* Of one head of one batch entry: the first, where a parameter makes them differ. */
typedef struct visible_pairs {
  int64_t count;
  int known;                  /* 0: count is all pairs, and `how` says why no better is known */
  char how[256];              /* the sum with its numbers, or how else the count was found */
  int64_t empty, full, mixed; /* tiles that hold no, only, or some visible pairs; where known */
} visible_pairs;

/* mask is NULL when the spec could not be rendered: then of tiles nothing is known. The causal mask
   has a closed form; any other is asked pair by pair as long as that is a matter of seconds. */
fa_status pairs_count(visible_pairs *out, const fa_spec *spec, const cli_sizes *sizes,
                      const pairs_mask *mask);

#endif
