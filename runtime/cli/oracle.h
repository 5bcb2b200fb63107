/* oracle.h: the mask and score of a spec, evaluated pair by pair in double.
 *
 * Takes the postfix words of render_result: numbers, `q k s`, `add sub mul neg lt le gt ge eq ne
 * and or`. q and k are positions on the key axis: q = row + seqlen_k - seqlen_q. It knows nothing
 * of tiles and derives by dual numbers, so it shares no mistake with the generator's own analysis.
 */
#ifndef FAGEN_CLI_ORACLE_H
#define FAGEN_CLI_ORACLE_H

#include "fagen.h"

typedef struct oracle oracle;

/* keep "" keeps every pair, score "" changes nothing. *out is yours: oracle_free.
   FA_INVALID names the word; FA_NO_MEMORY. */
fa_status oracle_compile(oracle **out, const char *keep, const char *score);
void oracle_free(oracle *compiled);

/* Whether the row at q sees the key at k. */
int oracle_keep(const oracle *compiled, int64_t q, int64_t k);

/* The score of the scaled product s; *derivative receives its derivative by s. */
double oracle_score(const oracle *compiled, double s, int64_t q, int64_t k, double *derivative);

#endif
