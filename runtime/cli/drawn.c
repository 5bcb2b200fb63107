/* drawn.c: see drawn.h. */
#include "drawn.h"

#include "gen/error.h"
#include "random.h"
#include "storage.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a draw is for, beside the slot: random.h gives the same number for the same purpose. */
enum { FOR_VALUES = 1000, FOR_LENGTHS = 2000 };

/* The value that --param gives VARIANT.NAME; NULL: it gives none. */
static const cli_param *given(const cli_sizes *sizes, const char *variant, const char *name) {
  char full[72];
  snprintf(full, sizeof full, "%s.%s", variant, name);
  for (size_t i = 0; i < sizes->num_params; ++i)
    if (!strcmp(sizes->params[i].name, full)) return &sizes->params[i];
  return NULL;
}

/* ---- Shapes --------------------------------------------------------------------------------- */

static uint64_t hash_of_name(const char *name) {
  uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
  for (; *name; ++name) hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
  return hash;
}

/* Half of the lengths are short, so that distances run past their ends, half reach over the whole
   sequence. Tables of one variant that share the name of their size share the length. */
static int64_t draw_length(const variant_param *declared, const cli_sizes *sizes) {
  int64_t purpose[4] = {0}, longest = declared->longest ? declared->longest : INT32_MAX;
  uint64_t name = FOR_LENGTHS + hash_of_name(declared->variant) + hash_of_name(declared->size);
  int64_t reach = sizes->seqlen_q > sizes->seqlen_k ? sizes->seqlen_q : sizes->seqlen_k;
  if (reach > 16 && random_uniform(sizes->seed, name, purpose) < 0.5) reach = 16;
  purpose[0] = 1;
  int64_t half = (int64_t)(random_uniform(sizes->seed, name, purpose) * (double)(reach + 1));
  return 2 * half + 1 < longest ? 2 * half + 1 : longest;
}

static fa_status set_length(int64_t *out, const variant_param *declared, const cli_sizes *sizes) {
  const cli_param *fixed = given(sizes, declared->variant, declared->size);
  int64_t longest = declared->longest ? declared->longest : INT32_MAX;
  *out = fixed ? 0 : draw_length(declared, sizes);
  if (!fixed) return FA_OK;
  if (fixed->value != floor(fixed->value) || fixed->value < 1 || fixed->value > (double)longest)
    return fail(FA_INVALID,
                "--param %s=%g; a table's length from 1 to %" PRId64 " is needed (%s.lua:%d)",
                fixed->name, fixed->value, longest, declared->variant, declared->line);
  *out = (int64_t)fixed->value;
  return FA_OK;
}

/* Indices run over batch, row or key, head, element. */
static fa_status set_shape(drawn_param *out, const cli_sizes *sizes) {
  const variant_param *declared = out->declared;
  int64_t *extent = out->shape.extent;
  fa_status status = FA_OK;
  for (int axis = 0; axis < 4; ++axis) extent[axis] = 1;
  out->shape.dtype = declared->is_int ? STORAGE_I32 : FA_F32;
  if (declared->per == PARAM_PER_HEAD) extent[2] = sizes->heads_q;
  if (declared->per == PARAM_PER_Q || declared->per == PARAM_PER_K) {
    extent[0] = sizes->batch;
    extent[1] = declared->per == PARAM_PER_Q ? sizes->seqlen_q : sizes->seqlen_k;
  }
  if (declared->size[0]) status = set_length(&extent[3], declared, sizes);
  view_dense(out->shape.stride, extent);
  return status;
}

/* ---- Values --------------------------------------------------------------------------------- */

typedef struct range {
  double low, high;
} range;

static range range_of(const variant_param *d, const cli_sizes *sizes) {
  range r = {d->draw_low, d->draw_to_seqlen_k ? (double)sizes->seqlen_k : d->draw_high};
  const double step = d->is_int ? 1 : 0x1p-20;
  if (d->has_min) r.low = fmax(r.low, d->min);
  if (d->has_above) r.low = fmax(r.low, d->above + step);
  if (d->has_max) r.high = fmin(r.high, d->max);
  if (d->has_below) r.high = fmin(r.high, d->below - step);
  if (d->draw_to_seqlen_k) r.high = fmax(r.high, r.low); /* sizes of 0 */
  return r;
}

/* A whole scalar often stands at an end of its range, or at the least that is allowed, where it may
   mean something else: -1 for no limit. */
static double draw_whole(const variant_param *declared, range r, double u) {
  double low = ceil(r.low), span = floor(r.high) - low;
  double further = u * 1024 - floor(u * 1024); /* digits of u that the whole number leaves */
  if (!param_is_table(declared) && further < 0.125) return declared->has_min ? declared->min : low;
  if (!param_is_table(declared) && further > 0.875) return low + span;
  return low + fmin(floor(u * (span + 1)), span);
}

static double draw_value(const variant_param *declared, range r, uint64_t seed, uint64_t slot,
                         const int64_t at[4]) {
  double u = random_uniform(seed, FOR_VALUES + slot, at);
  if (declared->is_int) return draw_whole(declared, r, u);
  return storage_round(r.low + u * (r.high - r.low), FA_F32);
}

static int compare_values(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void sort_rows(drawn_param *param) {
  int64_t count = view_count(param->shape.extent);
  int64_t row = param->shape.extent[3] > 1 ? param->shape.extent[3]
                                           : param->shape.extent[1] * param->shape.extent[2];
  for (int64_t first = 0; first < count; first += row)
    qsort(param->values + first, (size_t)row, sizeof *param->values, compare_values);
}

static fa_status set_values(drawn_params *out, int slot, const cli_sizes *sizes) {
  drawn_param *param = &out->items[slot];
  const variant_param *declared = param->declared;
  const cli_param *fixed = given(sizes, declared->variant, declared->name);
  const int64_t count = view_count(param->shape.extent);
  const range r = range_of(declared, sizes);
  int64_t at[4] = {0};
  param->values = calloc((size_t)count + 1, sizeof *param->values);
  if (!param->values) return fail(FA_NO_MEMORY, "no memory for %s", param->name);
  if (r.low > r.high && !fixed)
    return fail(FA_INVALID, "%s: no value from %g to %g to draw; --param %s=VALUE gives one",
                param->name, r.low, r.high, param->name);
  for (int64_t i = 0; i < count; ++i) {
    double value = fixed ? fixed->value : draw_value(declared, r, sizes->seed, (uint64_t)slot, at);
    param->values[i] = param_is_table(declared) ? storage_round(value, param->shape.dtype) : value;
    view_next(at, param->shape.extent);
  }
  if (declared->is_int && out->ascending && count) sort_rows(param);
  return FA_OK;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static fa_status check_given(const drawn_params *drawn, const cli_sizes *sizes) {
  for (size_t i = 0; i < sizes->num_params; ++i) {
    const cli_param *param = &sizes->params[i];
    char there[512] = "";
    int known = 0;
    for (int slot = 0; slot < drawn->count && !known; ++slot) {
      const variant_param *d = drawn->items[slot].declared;
      size_t used = strlen(there);
      known = given(&(cli_sizes){.params = param, .num_params = 1}, d->variant, d->name) ||
              (d->size[0] &&
               given(&(cli_sizes){.params = param, .num_params = 1}, d->variant, d->size));
      snprintf(there + used, sizeof there - used, " %s", drawn->items[slot].name);
    }
    if (!known)
      return fail(FA_INVALID, "--param %s: the spec has no such parameter; it has%s", param->name,
                  drawn->count ? there : " none");
  }
  return FA_OK;
}

fa_status drawn_make(drawn_params *out, const param_list *declared, const cli_sizes *sizes) {
  *out = (drawn_params){.declared = *declared, .ascending = sizes->seed % 2 == 0};
  fa_status status = FA_OK;
  for (int slot = 0; slot < declared->count && !status; ++slot) {
    drawn_param *param = &out->items[out->count++];
    param->declared = &out->declared.items[slot];
    snprintf(param->name, sizeof param->name, "%s.%s", declared->items[slot].variant,
             declared->items[slot].name);
    status = set_shape(param, sizes);
    if (!status) status = set_values(out, slot, sizes);
  }
  return status ? status : check_given(out, sizes);
}

void drawn_free(drawn_params *drawn) {
  for (int slot = 0; slot < drawn->count; ++slot) free(drawn->items[slot].values);
  drawn->count = 0;
}

static oracle_layout layout_of(const variant_param *declared) {
  static const oracle_layout plain[] = {[PARAM_PER_NONE] = ORACLE_SCALAR,
                                        [PARAM_PER_HEAD] = ORACLE_PER_HEAD,
                                        [PARAM_PER_Q] = ORACLE_PER_Q,
                                        [PARAM_PER_K] = ORACLE_PER_K};
  if (!declared->size[0]) return plain[declared->per];
  return declared->per == PARAM_PER_HEAD ? ORACLE_INDEXED_PER_HEAD : ORACLE_INDEXED;
}

void drawn_for_oracle(oracle_param *out, const drawn_params *drawn) {
  for (int slot = 0; slot < drawn->count; ++slot) {
    const drawn_param *param = &drawn->items[slot];
    out[slot] = (oracle_param){layout_of(param->declared), param->shape.extent[3], param->values,
                               param->declared->grad};
  }
}

void drawn_print(char *text, size_t bytes, const drawn_param *param) {
  int64_t count = view_count(param->shape.extent);
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    low = fmin(low, param->values[i]);
    high = fmax(high, param->values[i]);
  }
  if (!param_is_table(param->declared))
    snprintf(text, bytes, "%s %.9g", param->name, param->values[0]);
  else if (!count)
    snprintf(text, bytes, "%s without elements", param->name);
  else
    snprintf(text, bytes, "%s %" PRId64 " values, %.6g to %.6g", param->name, count, low, high);
}

size_t drawn_as_arguments(fa_param *out, const drawn_params *drawn) {
  for (int slot = 0; slot < drawn->count; ++slot) {
    const drawn_param *param = &drawn->items[slot];
    out[slot] = (fa_param){.name = param->name};
    if (param->declared->grad) out[slot].grad = (float *)param->values; /* wanted; never written */
    if (!param_is_table(param->declared)) {
      out[slot].value = param->values[0];
      continue;
    }
    out[slot].data = param->values; /* doubles: nothing that is given these reads them */
    out[slot].length = view_count(param->shape.extent);
  }
  return (size_t)drawn->count;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static void append(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t bytes, const char *format, ...) {
  size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, bytes - used, format, arguments);
  va_end(arguments);
}

static void append_shape(char *text, size_t bytes, const variant_param *d) {
  static const char *const extents[] = {[PARAM_PER_HEAD] = "heads",
                                        [PARAM_PER_Q] = "batch x seqlen",
                                        [PARAM_PER_K] = "batch x seqlen_k"};
  if (!param_is_table(d)) return;
  append(text, bytes, " table, %s%s%s", d->per ? extents[d->per] : "",
         d->per && d->size[0] ? " x " : "", d->size);
  if (d->longest) append(text, bytes, " (at most %" PRId64 ")", d->longest);
}

void drawn_print_declared(char *text, size_t bytes, const variant_param *d) {
  snprintf(text, bytes, "%s", d->is_int ? "i32" : "f32");
  append_shape(text, bytes, d);
  if (d->has_min) append(text, bytes, " >= %.6g", d->min);
  if (d->has_above) append(text, bytes, " > %.6g", d->above);
  if (d->has_max) append(text, bytes, " <= %.6g", d->max);
  if (d->has_below) append(text, bytes, " < %.6g", d->below);
  if (d->grad) append(text, bytes, ", with a gradient");
  if (d->draw_to_seqlen_k)
    append(text, bytes, "; drawn from %.6g to seqlen_k", d->draw_low);
  else
    append(text, bytes, "; drawn from %.6g to %.6g", d->draw_low, d->draw_high);
}
