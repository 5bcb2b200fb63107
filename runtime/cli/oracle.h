/* oracle.h: the mask, score and sink of a spec, evaluated pair by pair in double.
 *
 * Takes the postfix words of render_result. Leaves: numbers; s, the scaled product; q and k, the
 * positions on the key axis (q = row + seqlen_k - seqlen_q); head, batch, seqlen_q, seqlen_k,
 * heads_q, heads_kv; pN, parameter N, a scalar or the element of this head, row or key. Operators:
 * neg abs exp log tanh sigmoid floor not, add sub mul div idiv mod min max and or lt le gt ge eq
 * ne, select with the condition first, and tN, the element of table N at the index before it, or at
 * the end that the index is past; nN is the length of that table.
 *
 * What it trusts is the expression, as the variant's file was read. It knows causal by itself, has
 * no tiles, and derives by dual numbers, so it shares no mistake with the generator's own text,
 * derivative and analysis. */
#ifndef FAGEN_CLI_ORACLE_H
#define FAGEN_CLI_ORACLE_H

#include "fagen.h"
#include "sizes.h"

typedef struct oracle oracle;

/* "" keeps every pair, leaves s as it is, adds no sink. */
typedef struct oracle_words {
  const char *keep, *score, *sink;
} oracle_words;

typedef enum oracle_layout {
  ORACLE_SCALAR,
  ORACLE_PER_HEAD,         /* heads_q elements */
  ORACLE_PER_Q,            /* batch x seqlen_q */
  ORACLE_PER_K,            /* batch x seqlen_k */
  ORACLE_INDEXED,          /* `length`, by an index */
  ORACLE_INDEXED_PER_HEAD, /* heads_q x length */
} oracle_layout;

typedef struct oracle_param {
  oracle_layout layout;
  int64_t length;       /* of an indexed one, of one head */
  const double *values; /* borrowed */
  int grad;             /* whether its gradient is asked for */
} oracle_param;

/* The params in slot order and the sizes are copied, the values are not. *out is yours:
   oracle_free. FA_INVALID names the word; FA_NO_MEMORY. */
fa_status oracle_compile(oracle **out, const oracle_words *words, const cli_sizes *sizes,
                         const oracle_param *params, size_t num_params);
void oracle_free(oracle *compiled);

/* Whether the row sees the key. */
int oracle_keep(const oracle *compiled, const cli_pair *pair);

/* Whether there is a score other than s. */
int oracle_has_score(const oracle *compiled);

/* The score of the scaled product s; *derivative receives its derivative by s. _f32 rounds the
   value of every operation to f32: a sample of what a kernel loses; _gpu also tanh to steps of
   2^-22. */
double oracle_score(const oracle *compiled, const cli_pair *pair, double s, double *derivative);
double oracle_score_f32(const oracle *compiled, const cli_pair *pair, double s, double *derivative);
double oracle_score_gpu(const oracle *compiled, const cli_pair *pair, double s, double *derivative);

/* The logit that joins the sum of the pair's row; its key plays no part. */
int oracle_has_sink(const oracle *compiled);
double oracle_sink(const oracle *compiled, const cli_pair *row);

/* Adds factor times the derivative of the score or the sink by each parameter to gradients[slot],
   and the square of noise times it to noises[slot], which are NULL where none is asked for. */
typedef struct oracle_sums {
  double *const *gradients, *const *noises;
} oracle_sums;
void oracle_add_score(const oracle *compiled, const cli_pair *pair, double s, double factor,
                      double noise, const oracle_sums *sums);
void oracle_add_sink(const oracle *compiled, const cli_pair *row, double factor, double noise,
                     const oracle_sums *sums);

#endif
