/* sizes.h: what `check` and `explain` take beside the spec: the sizes of one problem. */
#ifndef FAGEN_CLI_SIZES_H
#define FAGEN_CLI_SIZES_H

#include <stddef.h>
#include <stdint.h>

/* A variant's parameter, "softcap.cap". */
typedef struct cli_param {
  const char *name;
  double value;
} cli_param;

typedef struct cli_sizes {
  int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k; /* heads_kv = heads_q / the spec's group */
  float softmax_scale;                                  /* 0 = 1 / sqrt(dim_qk) */
  uint64_t seed;
  const cli_param *params;
  size_t num_params;
} cli_sizes;

/* A query row of one query head of one batch entry, and a key that it may see. */
typedef struct cli_pair {
  int64_t batch, head, row, key;
} cli_pair;

#endif
