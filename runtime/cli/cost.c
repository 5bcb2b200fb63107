/* cost.c: the arithmetic of attention: products, tensors, and what backward needs of forward. */
#include "cost.h"

#include <inttypes.h>
#include <stdio.h>

#include "gen/error.h"
#include "gen/spec.h"
#include "table.h"

/* Generous on all sums below: no figure is a larger product than this one. */
fa_status cost_countable(const fa_spec *spec, const cli_sizes *sizes) {
  double heads = (double)sizes->heads_q + (double)sizes->heads_kv;
  double pairs = ((double)sizes->seqlen_q + 1) * ((double)sizes->seqlen_k + 1);
  double largest = 20.0 * (double)sizes->batch * heads * pairs * (spec->dim_qk + spec->dim_v);
  if (largest < 9e18) return FA_OK;
  return fail(FA_INVALID,
              "sizes: batch %" PRId64 " with %" PRId64 " heads of %" PRId64 " x %" PRId64
              " pairs give about %.1e operations; less than 9e18 can be explained",
              sizes->batch, sizes->heads_q, sizes->seqlen_q, sizes->seqlen_k, largest);
}

/* ---- Work ----------------------------------------------------------------------------------- */

/* FLOPs of a pass whose products sum or write `columns` columns in all. */
static int64_t product_flops(const cli_sizes *sizes, int64_t pairs, int64_t columns) {
  return 2 * sizes->batch * sizes->heads_q * pairs * columns;
}

static void print_products(const char *label, const cli_sizes *sizes, int64_t pairs,
                           const char *columns_text, int64_t columns) {
  table_row(label, "%s", amount_of_flops(product_flops(sizes, pairs, columns)).text);
  table_row("",
            "= 2 * batch * heads * pairs * (%s) = 2*%" PRId64 "*%" PRId64 "*%" PRId64 "*%" PRId64,
            columns_text, sizes->batch, sizes->heads_q, pairs, columns);
}

/* The classes that the mask has, whoever finds them: a generator may take a tile for mixed that is
   not. */
static void print_tiles(const visible_pairs *pairs) {
  int64_t tiles = pairs->empty + pairs->full + pairs->mixed;
  double percent = tiles ? 100.0 / (double)tiles : 0;
  if (!tiles) return;
  table_row("tiles", "%.3g %% empty, %.3g %% full, %.3g %% mixed of %" PRId64 " a head",
            percent * (double)pairs->empty, percent * (double)pairs->full,
            percent * (double)pairs->mixed, tiles);
  table_row("", "empty ones need not be loaded, full ones not be masked; by the mask itself");
}

void cost_print_work(const fa_spec *spec, const cli_sizes *sizes, const visible_pairs *pairs) {
  int64_t dim_qk = spec->dim_qk, dim_v = spec->dim_v;
  int64_t all = sizes->seqlen_q * sizes->seqlen_k;
  table_heading("Work (a multiplication and an addition are 2 FLOPs)");
  table_row("visible pairs", "%" PRId64 " of %" PRId64 " a head%s", pairs->count, all,
            pairs->known ? "" : ", at most");
  table_row("", "= %s", pairs->how);
  print_tiles(pairs);
  print_products("forward", sizes, pairs->count, "dim_qk + dim_v", dim_qk + dim_v);
  table_row("", "2 products: S = Q K', O = P V");
  print_products("backward", sizes, pairs->count, "3 dim_qk + 2 dim_v", 3 * dim_qk + 2 * dim_v);
  table_row("", "5 products: S = Q K' again, dP = dO V', dV = P' dO, dQ = dS K, dK = dS' Q");
  table_row("backward / forward",
            "%.4g = %" PRId64 "/%" PRId64 "%s: four products carry the gradients of the forward's "
            "two, and one forms S anew because P was not stored",
            (double)(3 * dim_qk + 2 * dim_v) / (double)(dim_qk + dim_v), 3 * dim_qk + 2 * dim_v,
            dim_qk + dim_v, dim_qk == dim_v ? " = 5/2" : "");
  if (spec->pass != FA_PRE) return;
  table_row("this pass", "%s", amount_of_flops(product_flops(sizes, sizes->seqlen_q, dim_v)).text);
  table_row("",
            "= 2 * batch * heads * seqlen * dim_v = 2*%" PRId64 "*%" PRId64 "*%" PRId64 "*%" PRId64
            ", D = rowsum(dO * O)",
            sizes->batch, sizes->heads_q, sizes->seqlen_q, dim_v);
}

/* ---- Bytes moved ---------------------------------------------------------------------------- */

typedef enum tensor_shape { Q_SHAPE, K_SHAPE, V_SHAPE, O_SHAPE, ROW_SHAPE } tensor_shape;

static const struct pass_tensor {
  fa_pass pass;
  const char *access, *name;
  tensor_shape shape;
} pass_tensors[] = {
    {FA_FWD, "read", "Q", Q_SHAPE},      {FA_FWD, "read", "K", K_SHAPE},
    {FA_FWD, "read", "V", V_SHAPE},      {FA_FWD, "write", "O", O_SHAPE},
    {FA_FWD, "write", "LSE", ROW_SHAPE}, {FA_PRE, "read", "O", O_SHAPE},
    {FA_PRE, "read", "dO", O_SHAPE},     {FA_PRE, "write", "D", ROW_SHAPE},
    {FA_BWD, "read", "Q", Q_SHAPE},      {FA_BWD, "read", "K", K_SHAPE},
    {FA_BWD, "read", "V", V_SHAPE},      {FA_BWD, "read", "O", O_SHAPE},
    {FA_BWD, "read", "dO", O_SHAPE},     {FA_BWD, "read", "LSE", ROW_SHAPE},
    {FA_BWD, "write", "dQ", Q_SHAPE},    {FA_BWD, "write", "dK", K_SHAPE},
    {FA_BWD, "write", "dV", V_SHAPE},
};

typedef struct extent {
  int64_t rows, heads, columns, element_bytes;
} extent;

static extent extent_of(tensor_shape shape, const fa_spec *spec, const cli_sizes *sizes) {
  int64_t bytes = spec_dtype_bytes(spec->dtype);
  switch (shape) {
  case Q_SHAPE:
    return (extent){sizes->seqlen_q, sizes->heads_q, spec->dim_qk, bytes};
  case K_SHAPE:
    return (extent){sizes->seqlen_k, sizes->heads_kv, spec->dim_qk, bytes};
  case V_SHAPE:
    return (extent){sizes->seqlen_k, sizes->heads_kv, spec->dim_v, bytes};
  case O_SHAPE:
    return (extent){sizes->seqlen_q, sizes->heads_q, spec->dim_v, bytes};
  case ROW_SHAPE:
    break;
  }
  return (extent){sizes->seqlen_q, sizes->heads_q, 1, sizeof(float)};
}

static int64_t extent_bytes(extent e, const cli_sizes *sizes) {
  return sizes->batch * e.rows * e.heads * e.columns * e.element_bytes;
}

static int64_t pass_flops(const fa_spec *spec, const cli_sizes *sizes, int64_t pairs) {
  switch (spec->pass) {
  case FA_FWD:
    return product_flops(sizes, pairs, spec->dim_qk + spec->dim_v);
  case FA_BWD:
    return product_flops(sizes, pairs, 3 * spec->dim_qk + 2 * spec->dim_v);
  }
  return product_flops(sizes, sizes->seqlen_q, spec->dim_v);
}

void cost_print_bytes(const fa_spec *spec, const cli_sizes *sizes, const visible_pairs *pairs) {
  int64_t total = 0;
  table_heading("Bytes moved, each tensor once (batch * seqlen * heads * dim * bytes)");
  for (size_t i = 0; i < sizeof pass_tensors / sizeof *pass_tensors; ++i) {
    const struct pass_tensor *tensor = &pass_tensors[i];
    if (tensor->pass != (fa_pass)spec->pass) continue;
    extent e = extent_of(tensor->shape, spec, sizes);
    char label[16];
    snprintf(label, sizeof label, "%-5s %s", tensor->access, tensor->name);
    table_row(label, "%s = %" PRId64 "*%" PRId64 "*%" PRId64 "*%" PRId64 "*%" PRId64,
              amount_of_bytes(extent_bytes(e, sizes)).text, sizes->batch, e.rows, e.heads,
              e.columns, e.element_bytes);
    total += extent_bytes(e, sizes);
  }
  table_row("in all", "%s", amount_of_bytes(total).text);
  if (total)
    table_row("FLOPs a byte", "%.4g",
              (double)pass_flops(spec, sizes, pairs->count) / (double)total);
}

/* ---- Kept for backward ---------------------------------------------------------------------- */

void cost_print_saved(const fa_spec *spec, const cli_sizes *sizes) {
  int64_t element = spec_dtype_bytes(spec->dtype);
  int64_t rows = sizes->batch * sizes->heads_q * sizes->seqlen_q;
  int64_t stored = rows * sizes->seqlen_k * element;
  table_heading("Saved for backward, beside the inputs");
  table_row("O", "%s, the output itself", amount_of_bytes(rows * spec->dim_v * element).text);
  table_row("LSE", "%s, one f32 a query head and row", amount_of_bytes(rows * 4).text);
  table_row("", "= batch * heads * seqlen * 4 = %" PRId64 "*%" PRId64 "*%" PRId64 "*4",
            sizes->batch, sizes->heads_q, sizes->seqlen_q);
  table_row("instead of P", "%s, what storing it would take: %.4g times the LSE",
            amount_of_bytes(stored).text, rows ? (double)stored / (double)(rows * 4) : 0.0);
  table_row("",
            "= batch * heads * seqlen * seqlen_k * %" PRId64 " = %" PRId64 "*%" PRId64 "*%" PRId64
            "*%" PRId64 "*%" PRId64,
            element, sizes->batch, sizes->heads_q, sizes->seqlen_q, sizes->seqlen_k, element);
}
