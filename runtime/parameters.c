/* parameters.c: names to slots, values against their limits, tables against the problem. */
#include "parameters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

enum { NAME_BYTES = 80, PLACE_BYTES = 160, LIST_BYTES = 400 };

const char *parameters_name(const fa_kernel *kernel, int slot) {
  static _Thread_local char name[NAME_BYTES];
  const variant_param *param = &kernel->params.items[slot];
  snprintf(name, sizeof name, "%s.%s", param->variant, param->name);
  return name;
}

/* "softcap.lua:4: softcap.cap", with the line that declares it, which says what it must be. A path
   would differ from machine to machine, and stand in entries of the disk cache. Static too. */
static const char *placed_name(const fa_kernel *kernel, int slot) {
  static _Thread_local char place[PLACE_BYTES];
  const variant_param *param = &kernel->params.items[slot];
  char line[16] = "";
  if (param->line) snprintf(line, sizeof line, "%d:", param->line);
  snprintf(place, sizeof place, "%s.lua:%s %s", param->variant, line,
           parameters_name(kernel, slot));
  return place;
}

/* ", which has none" or "; it has softcap.cap, window.left". */
static const char *list_names(char list[LIST_BYTES], const fa_kernel *kernel) {
  size_t used = 0;
  snprintf(list, LIST_BYTES, ", which has none");
  for (int i = 0; i < kernel->params.count && used < LIST_BYTES; ++i)
    used += (size_t)snprintf(list + used, LIST_BYTES - used, "%s%s", i ? ", " : "; it has ",
                             parameters_name(kernel, i));
  return list;
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static fa_status find_slot(int *slot, const fa_kernel *kernel, const fa_param *param) {
  char list[LIST_BYTES];
  *slot = param->name ? params_find(&kernel->params, param->name) : param->slot;
  if (*slot >= 0 && *slot < kernel->params.count) return FA_OK;
  if (param->name)
    return fail(FA_INVALID, "params: '%.80s' is no parameter of %s%s", param->name, kernel->name,
                list_names(list, kernel));
  return fail(FA_INVALID, "params: (by slot) %d is no slot of %s%s", param->slot, kernel->name,
              list_names(list, kernel));
}

FA_API fa_status fa_param_slot(int32_t *slot, const fa_kernel *kernel, const char *name) {
  char list[LIST_BYTES];
  if (!slot || !kernel || !name)
    return fail(FA_INVALID, "%s: NULL", !slot ? "slot" : !kernel ? "kernel" : "name");
  int found = params_find(&kernel->params, name);
  if (found < 0)
    return fail(FA_INVALID, "name: '%.80s' is no parameter of %s%s", name, kernel->name,
                list_names(list, kernel));
  *slot = found;
  return FA_OK;
}

/* ---- Scalars -------------------------------------------------------------------------------- */

static int within_limits(const variant_param *param, double value) {
  return !(param->has_min && value < param->min) && !(param->has_max && value > param->max) &&
         !(param->has_above && value <= param->above) &&
         !(param->has_below && value >= param->below);
}

static int put_limit(char *to, size_t bytes, int has, const char *words, double limit) {
  return has ? snprintf(to, bytes, " %s %g", words, limit) : 0;
}

/* "a whole number of at least -1". */
static const char *print_range(char range[NAME_BYTES], const variant_param *param) {
  int used = snprintf(range, NAME_BYTES, "%s",
                      param->is_int ? "a whole number of 32 bits" : "a finite number");
  char *at = range + used;
  size_t left = NAME_BYTES - (size_t)used;
  int n = put_limit(at, left, param->has_min, "at least", param->min);
  n += put_limit(at + n, left - (size_t)n, param->has_above, "above", param->above);
  n += put_limit(at + n, left - (size_t)n, param->has_max, "at most", param->max);
  put_limit(at + n, left - (size_t)n, param->has_below, "below", param->below);
  return range;
}

static fa_status check_scalar(const fa_kernel *kernel, int slot, const fa_param *given) {
  const variant_param *param = &kernel->params.items[slot];
  char range[NAME_BYTES];
  double value = given->value, as_float = (double)(float)value;
  int whole = value >= INT32_MIN && value <= INT32_MAX && value == floor(value);
  if (given->data || given->length)
    return fail(FA_INVALID, "%s: data or length is set; a scalar is given by its value",
                placed_name(kernel, slot));
  if (!isfinite(value) || (param->is_int && !whole) || !within_limits(param, value) ||
      (!param->is_int && !(isfinite(as_float) && within_limits(param, as_float))))
    return fail(FA_INVALID, "%s: %g; must be %s", placed_name(kernel, slot), value,
                print_range(range, param));
  return FA_OK;
}

/* ---- Tables --------------------------------------------------------------------------------- */

/* The elements of a table without size, and in words. */
static int64_t elements_of(const variant_param *param, const fa_args *args, const char **words) {
  static const char *const names[] = {"", "heads_q", "batch * seqlen_q", "batch * seqlen_k"};
  const int64_t counts[] = {0, args->heads_q, args->batch * args->seqlen_q,
                            args->batch * args->seqlen_k};
  *words = names[param->per];
  return counts[param->per];
}

static fa_status check_sized(const fa_kernel *kernel, int slot, const fa_param *given,
                             const fa_args *args) {
  const variant_param *param = &kernel->params.items[slot];
  int64_t rows = param->per == PARAM_PER_HEAD ? args->heads_q : 1, length = given->length;
  if (rows == 0 && length == 0) return FA_OK;
  if (rows == 0 || length < rows || length % rows)
    return fail(FA_INVALID, "%s: length %lld; must be %s%s, which is 1 or more",
                placed_name(kernel, slot), (long long)length, param->per ? "heads_q * " : "",
                param->size);
  if (param->longest && length / rows > param->longest)
    return fail(FA_INVALID, "%s: %s %lld; must be at most %lld", placed_name(kernel, slot),
                param->size, (long long)(length / rows), (long long)param->longest);
  return length / rows <= INT32_MAX
             ? FA_OK
             : fail(FA_INVALID, "%s: %s %lld; must be at most %d", placed_name(kernel, slot),
                    param->size, (long long)(length / rows), INT32_MAX);
}

static fa_status check_table(const fa_kernel *kernel, int slot, const fa_param *given,
                             const fa_args *args) {
  const variant_param *param = &kernel->params.items[slot];
  const char *words;
  if (param->size[0]) return check_sized(kernel, slot, given, args);
  int64_t elements = elements_of(param, args, &words);
  if (given->length == elements) return FA_OK;
  return fail(FA_INVALID, "%s: length %lld; must be %s = %lld", placed_name(kernel, slot),
              (long long)given->length, words, (long long)elements);
}

/* Tables of one variant that share a size have rows of one length. */
static fa_status check_sizes(const fa_kernel *kernel, const fa_plan_param *taken,
                             const fa_args *args) {
  const variant_param *params = kernel->params.items;
  for (int i = 0; i < kernel->params.count; ++i)
    for (int j = 0; j < i; ++j) {
      if (!params[i].size[0] || strcmp(params[i].size, params[j].size) ||
          strcmp(params[i].variant, params[j].variant) || !taken[i].length || !taken[j].length)
        continue;
      int64_t a = taken[i].length / (params[i].per ? args->heads_q : 1);
      int64_t b = taken[j].length / (params[j].per ? args->heads_q : 1);
      if (a != b)
        return fail(FA_INVALID, "%s: %s %lld; another table of the variant has %lld",
                    placed_name(kernel, i), params[i].size, (long long)a, (long long)b);
    }
  return FA_OK;
}

/* ---- All ------------------------------------------------------------------------------------ */

static fa_status take_one(fa_plan_param *out, const fa_kernel *kernel, int slot,
                          const fa_param *given, const fa_args *args) {
  const variant_param *param = &kernel->params.items[slot];
  fa_status status = param_is_table(param) ? check_table(kernel, slot, given, args)
                                           : check_scalar(kernel, slot, given);
  if (!status && given->grad && !param->grad)
    status = fail(FA_INVALID, "%s: grad is set; it has no gradient", placed_name(kernel, slot));
  *out = (fa_plan_param){given->value, given->data, given->length,
                         kernel->spec.pass == FA_BWD ? given->grad : NULL};
  return status;
}

fa_status parameters_take(fa_plan_param *out, const fa_kernel *kernel, const fa_args *args) {
  uint32_t seen = 0;
  memset(out, 0, PARAMS_MAX * sizeof *out);
  if (args->num_params && !args->params)
    return fail(FA_INVALID, "params: NULL, with num_params %zu", args->num_params);
  for (size_t i = 0; i < args->num_params; ++i) {
    int slot;
    fa_status status = find_slot(&slot, kernel, &args->params[i]);
    if (!status && seen & 1u << slot)
      status = fail(FA_INVALID, "%s: given twice", placed_name(kernel, slot));
    if (!status) status = take_one(&out[slot], kernel, slot, &args->params[i], args);
    if (status) return status;
    seen |= 1u << slot;
  }
  return check_sizes(kernel, out, args);
}

fa_status parameters_complete(const fa_kernel *kernel, const fa_args *args) {
  uint32_t seen = 0;
  for (size_t i = 0; i < args->num_params; ++i) {
    int slot;
    fa_status status = find_slot(&slot, kernel, &args->params[i]);
    if (status) return status;
    seen |= 1u << slot;
  }
  for (int i = 0; i < kernel->params.count; ++i) {
    const variant_param *param = &kernel->params.items[i];
    char range[NAME_BYTES];
    if (seen & 1u << i) continue;
    return fail(FA_INVALID, "%s: missing; kernel %s takes %s", placed_name(kernel, i), kernel->name,
                param_is_table(param) ? "a table of it" : print_range(range, param));
  }
  return FA_OK;
}
