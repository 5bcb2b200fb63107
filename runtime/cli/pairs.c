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

/* ---- Tiles ---------------------------------------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t tiles_of(int64_t length, int64_t tile) {
  return (length + tile - 1) / tile;
}

/* A tile row of causal whose first row sees `least` keys and whose last sees `most`. */
static void add_causal_tiles(visible_pairs *out, int64_t least, int64_t most, int64_t keys,
                             int64_t tile) {
  int64_t full = least == keys ? tiles_of(keys, tile) : least / tile;
  int64_t touched = tiles_of(most, tile);
  out->full += full;
  out->mixed += touched - full;
  out->empty += tiles_of(keys, tile) - touched;
}

/* Keys that a row of causal sees. */
static int64_t causal_keys(const cli_sizes *sizes, int64_t row) {
  int64_t keys = row + sizes->seqlen_k - sizes->seqlen_q + 1;
  return keys < 0 ? 0 : smaller(keys, sizes->seqlen_k);
}

static void count_causal_tiles(visible_pairs *out, const cli_sizes *sizes, const pairs_mask *mask) {
  for (int64_t row = 0; row < sizes->seqlen_q; row += mask->tile_rows) {
    int64_t last = smaller(row + mask->tile_rows, sizes->seqlen_q) - 1;
    add_causal_tiles(out, causal_keys(sizes, row), causal_keys(sizes, last), sizes->seqlen_k,
                     mask->tile_keys);
  }
}

/* Counts one tile pair by pair. */
static void count_tile(visible_pairs *out, const oracle *o, const cli_sizes *sizes,
                       const pairs_mask *mask, int64_t row, int64_t key) {
  int64_t last_row = smaller(row + mask->tile_rows, sizes->seqlen_q);
  int64_t last_key = smaller(key + mask->tile_keys, sizes->seqlen_k);
  int64_t all = (last_row - row) * (last_key - key), visible = 0;
  cli_pair pair = {.row = row};
  for (; pair.row < last_row; ++pair.row)
    for (pair.key = key; pair.key < last_key; ++pair.key) visible += oracle_keep(o, &pair);
  out->count += visible;
  out->full += visible == all;
  out->empty += visible == 0;
  out->mixed += visible != 0 && visible != all;
}

static fa_status count_by_oracle(visible_pairs *out, const cli_sizes *sizes,
                                 const pairs_mask *mask) {
  oracle_param params[PARAMS_MAX];
  oracle *compiled;
  oracle_words words = {mask->keep, "", ""};
  drawn_for_oracle(params, mask->drawn);
  fa_status status = oracle_compile(&compiled, &words, sizes, params, (size_t)mask->drawn->count);
  if (status) return status;
  out->count = 0;
  for (int64_t row = 0; row < sizes->seqlen_q; row += mask->tile_rows) {
    for (int64_t key = 0; key < sizes->seqlen_k; key += mask->tile_keys)
      count_tile(out, compiled, sizes, mask, row, key);
    progress_show("counting visible pairs", (double)(row + 1) / (double)sizes->seqlen_q);
  }
  progress_end();
  oracle_free(compiled);
  snprintf(out->how, sizeof out->how, "a count, pair by pair%s",
           mask->drawn->count ? ", of the first head and batch entry" : "");
  return FA_OK;
}

/* ---- All of it ------------------------------------------------------------------------------ */

static void count_unmasked(visible_pairs *out, const cli_sizes *sizes, const pairs_mask *mask) {
  count_all(out, sizes->seqlen_q, sizes->seqlen_k);
  if (mask)
    out->full =
        tiles_of(sizes->seqlen_q, mask->tile_rows) * tiles_of(sizes->seqlen_k, mask->tile_keys);
}

fa_status pairs_count(visible_pairs *out, const fa_spec *spec, const cli_sizes *sizes,
                      const pairs_mask *mask) {
  int64_t q = sizes->seqlen_q, k = sizes->seqlen_k;
  const char *keep = mask ? mask->keep : spec->causal ? causal_keep : "";
  int known = mask || !spec->variants[0];
  *out = (visible_pairs){.known = 1};
  if (known && !strcmp(keep, causal_keep)) {
    count_causal(out, q, k);
    if (mask) count_causal_tiles(out, sizes, mask);
  } else if (known && !*keep) {
    count_unmasked(out, sizes, mask);
  } else if (known && q * k <= countable_pairs) {
    return count_by_oracle(out, sizes, mask);
  } else {
    *out = (visible_pairs){.count = q * k};
    snprintf(out->how, sizeof out->how,
             "%" PRId64 "*%" PRId64 "; what the mask hides is not known: %s", q, k,
             known ? "too many pairs to count, smaller sizes will do" : "nothing was rendered");
  }
  return FA_OK;
}
