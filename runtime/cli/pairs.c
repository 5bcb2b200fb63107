/* pairs.c: counting visible pairs, by a sum for causal and by the oracle for every other mask. */
#include "pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "oracle.h"
#include "progress.h"

/* The mask of templates/variants/causal.lua as render_result gives it. */
static const char causal_keep[] = "k q le";

/* As many as the oracle answers in a few seconds. */
static const int64_t countable_pairs = (int64_t)1 << 26;

/* Row i of q sees the keys up to i + k - q: the last row sees all k, each row before it one less.
 */
static void count_causal(visible_pairs *out, int64_t q, int64_t k) {
  if (q <= k) {
    out->count = q * k - q * (q - 1) / 2;
    snprintf(out->how, sizeof out->how,
             "%" PRId64 "*%" PRId64 " - %" PRId64 "*%" PRId64
             "/2; each row sees one key less than the next",
             q, k, q, q > 0 ? q - 1 : 0);
    return;
  }
  out->count = k * (k + 1) / 2;
  snprintf(out->how, sizeof out->how,
           "%" PRId64 "*%" PRId64 "/2; the first %" PRId64 " rows see no key", k, k + 1, q - k);
}

static void count_all(visible_pairs *out, int64_t q, int64_t k) {
  out->count = q * k;
  snprintf(out->how, sizeof out->how, "%" PRId64 "*%" PRId64 "; every row sees every key", q, k);
}

static fa_status count_by_oracle(visible_pairs *out, const char *keep, const cli_sizes *sizes) {
  oracle *mask;
  oracle_words words = {keep, "", ""};
  cli_pair pair = {0};
  fa_status status = oracle_compile(&mask, &words, sizes, NULL, 0);
  if (status) return status;
  out->count = 0;
  for (; pair.row < sizes->seqlen_q; ++pair.row) {
    for (pair.key = 0; pair.key < sizes->seqlen_k; ++pair.key)
      out->count += oracle_keep(mask, &pair);
    progress_show("counting visible pairs", (double)(pair.row + 1) / (double)sizes->seqlen_q);
  }
  progress_end();
  oracle_free(mask);
  snprintf(out->how, sizeof out->how, "a count, pair by pair");
  return FA_OK;
}

fa_status pairs_count(visible_pairs *out, const fa_spec *spec, const cli_sizes *sizes,
                      const char *keep) {
  int64_t q = sizes->seqlen_q, k = sizes->seqlen_k;
  *out = (visible_pairs){.known = 1};
  if (!keep && !spec->variants[0]) keep = spec->causal ? causal_keep : "";
  if (keep && !strcmp(keep, causal_keep)) {
    count_causal(out, q, k);
    return FA_OK;
  }
  count_all(out, q, k);
  if (keep && !*keep) return FA_OK;
  if (keep && q * k <= countable_pairs) return count_by_oracle(out, keep, sizes);
  out->known = 0;
  snprintf(out->how, sizeof out->how,
           "%" PRId64 "*%" PRId64 "; what the mask hides is not known: %s", q, k,
           keep ? "too many pairs to count, smaller sizes will do" : "nothing was rendered");
  return FA_OK;
}
