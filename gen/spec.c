/* spec.c: the specification as struct, as words and as a name, and its one canonical form. */
#include "spec.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "structs.h"

/* ---- Words of the enumerations -------------------------------------------------------------- */

typedef struct word_value {
  const char *word;
  int value;
} word_value;

static const word_value pass_words[] = {
    {"fwd", FA_FWD}, {"pre", FA_PRE}, {"bwd", FA_BWD}, {NULL, 0}};
static const word_value target_words[] = {
    {"cpu", FA_TARGET_CPU}, {"sm80", FA_TARGET_SM80}, {"sm90", FA_TARGET_SM90}, {NULL, 0}};
static const word_value dtype_words[] = {
    {"f16", FA_F16}, {"bf16", FA_BF16}, {"f32", FA_F32}, {NULL, 0}};
static const int archs[] = {80, 86, 89, 90, 100, 120};

static const char *word_of(const word_value *words, int value) {
  for (; words->word; ++words)
    if (words->value == value) return words->word;
  return NULL;
}

static int value_of(const word_value *words, const char *word) {
  for (; words->word; ++words)
    if (!strcmp(words->word, word)) return words->value;
  return 0;
}

const char *spec_pass_word(int pass) {
  return word_of(pass_words, pass);
}
const char *spec_target_word(int target) {
  return word_of(target_words, target);
}
const char *spec_dtype_word(int dtype) {
  return word_of(dtype_words, dtype);
}
int spec_dtype_bytes(int dtype) {
  return dtype == FA_F32 ? 4 : 2;
}

/* The number behind `prefix` when word is prefix and digits; -1 when it is not, -2 out of range. */
static long number_after(const char *word, const char *prefix) {
  size_t length = strlen(prefix);
  if (strncmp(word, prefix, length) || !word[length]) return -1;
  for (const char *at = word + length; *at; ++at)
    if (!isdigit((unsigned char)*at)) return -1;
  return strlen(word + length) > 9 ? -2 : strtol(word + length, NULL, 10);
}

static const struct number_axis {
  const char *prefix, *axis;
  size_t offset;
} number_axes[] = {
    {"d", "head dimension", offsetof(fa_spec, dim_qk)},
    {"v", "dim_v", offsetof(fa_spec, dim_v)},
    {"gqa", "group", offsetof(fa_spec, group)},
    {"cc", "arch", offsetof(fa_spec, arch)},
};

/* Whether word is one of an axis, and so no name for a variant. */
static int is_axis_word(const char *word) {
  for (size_t i = 0; i < sizeof number_axes / sizeof *number_axes; ++i)
    if (number_after(word, number_axes[i].prefix) != -1) return 1;
  return value_of(pass_words, word) || value_of(target_words, word) ||
         value_of(dtype_words, word) || !strcmp(word, "causal") || !strcmp(word, "det");
}

/* ---- Canonical form ------------------------------------------------------------------------- */

static fa_status check_dim(const char *field, int dim) {
  if (dim >= 8 && dim <= FA_DIM_MAX && dim % 8 == 0) return FA_OK;
  return fail(FA_INVALID, "%s: %d; a head dimension is a multiple of 8 from 8 to %d", field, dim,
              FA_DIM_MAX);
}

static fa_status check_flag(const char *field, int flag) {
  if (flag == 0 || flag == 1) return FA_OK;
  return fail(FA_INVALID, "%s: %d; must be 0 or 1", field, flag);
}

static int default_arch(int target) {
  return target == FA_TARGET_SM80 ? 80 : target == FA_TARGET_SM90 ? 90 : 0;
}

static fa_status check_arch(int target, int arch) {
  if (arch == default_arch(target)) return FA_OK;
  if (target == FA_TARGET_BEST)
    return fail(FA_INVALID, "arch: %d; an arch needs a target that is named (sm80 or sm90)", arch);
  if (target == FA_TARGET_CPU) return fail(FA_INVALID, "arch: %d; the cpu target has none", arch);
  if (target == FA_TARGET_SM90)
    return fail(FA_INVALID, "arch: %d; target sm90 runs on 90 only", arch);
  for (size_t i = 0; i < sizeof archs / sizeof *archs; ++i)
    if (archs[i] == arch) return FA_OK;
  return fail(FA_INVALID, "arch: %d; must be one of 80 86 89 90 100 120", arch);
}

/* A name that is no other word of a spec. */
static fa_status check_variant_name(const char *name) {
  size_t length = strlen(name);
  int shaped = length > 0 && length < 32 && islower((unsigned char)name[0]);
  for (size_t i = 0; i < length; ++i) {
    int single = name[i] == '_' && name[i + 1] && name[i + 1] != '_';
    if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) && !single) shaped = 0;
  }
  if (!shaped)
    return fail(FA_INVALID,
                "variants: '%.40s'; a name is 1 to 31 of a-z 0-9 _ and begins with a letter; _ "
                "stands between two others",
                name);
  if (is_axis_word(name))
    return fail(FA_INVALID, "variants: '%s' is a word of its own: set its field instead", name);
  return FA_OK;
}

typedef struct variant_list {
  char *text;
  size_t used;
} variant_list;

static fa_status append_variant(void *to, const char *name) {
  variant_list *list = to;
  fa_status status = check_variant_name(name);
  if (status) return status;
  size_t length = strlen(name);
  for (const char *at = list->text; (at = strstr(at, name)) != NULL; at += length) {
    int starts = at == list->text || at[-1] == ' ', ends = at[length] == ' ' || !at[length];
    if (starts && ends) return fail(FA_INVALID, "variants: '%s' is named twice", name);
  }
  if (list->used + length + 2 > FA_VARIANTS_MAX)
    return fail(FA_INVALID, "variants: too long at '%s'; all names take at most %d bytes", name,
                FA_VARIANTS_MAX - 1);
  if (list->used) list->text[list->used++] = ' ';
  memcpy(list->text + list->used, name, length);
  list->used += length;
  return FA_OK;
}

fa_status spec_each_variant(const char *variants, fa_status (*visit)(void *to, const char *name),
                            void *to) {
  char name[FA_VARIANTS_MAX];
  const char *at = variants;
  while (*(at += strspn(at, " "))) {
    size_t length = strcspn(at, " ");
    memcpy(name, at, length);
    name[length] = '\0';
    fa_status status = visit(to, name);
    if (status) return status;
    at += length;
  }
  return FA_OK;
}

static fa_status check_variants(char *out, const char *variants) {
  if (!memchr(variants, '\0', FA_VARIANTS_MAX))
    return fail(FA_INVALID, "variants: no final 0 in its %d bytes", FA_VARIANTS_MAX);
  variant_list list = {out, 0};
  return spec_each_variant(variants, append_variant, &list);
}

static fa_status check_enums(const fa_spec *spec) {
  if (!spec_pass_word(spec->pass))
    return fail(FA_INVALID, "pass: %d; must be FA_FWD, FA_PRE or FA_BWD (fwd, pre, bwd)",
                spec->pass);
  if (spec->target != FA_TARGET_BEST && !spec_target_word(spec->target))
    return fail(FA_INVALID, "target: %d; must be FA_TARGET_BEST, _CPU, _SM80 or _SM90",
                spec->target);
  if (!spec_dtype_word(spec->dtype))
    return fail(FA_INVALID, "dtype: %d; must be FA_F16, FA_BF16 or FA_F32 (f16, bf16, f32)",
                spec->dtype);
  if (spec->dtype == FA_F32 && spec->target != FA_TARGET_BEST && spec->target != FA_TARGET_CPU)
    return fail(FA_INVALID, "dtype: f32 is for the cpu target; %s takes f16 and bf16",
                spec_target_word(spec->target));
  return FA_OK;
}

/* Fields that change nothing for a pass are cleared, so that one kernel has one name: forward is
   always deterministic, and preprocess looks at no score. */
static void drop_idle_fields(fa_spec *spec) {
  if (spec->pass == FA_FWD) spec->deterministic = 0;
  if (spec->pass == FA_PRE) {
    spec->causal = spec->deterministic = 0;
    memset(spec->variants, 0, sizeof spec->variants);
  }
}

fa_status spec_canonicalise(fa_spec *out, const fa_spec *spec) {
  fa_spec given, canonical = FA_SPEC_INIT;
  fa_status status = struct_take(&given, sizeof given, spec, "fa_spec");
  if (!status) status = check_enums(&given);
  if (!status) status = check_dim("dim_qk", given.dim_qk);
  if (!status && given.dim_v) status = check_dim("dim_v", given.dim_v);
  if (!status) status = check_flag("causal", given.causal);
  if (!status) status = check_flag("deterministic", given.deterministic);
  if (!status && given.group < 0)
    status = fail(FA_INVALID, "group: %d; query heads a key/value head, 1 or more", given.group);
  if (!status && given.arch) status = check_arch(given.target, given.arch);
  if (!status && given.reserved) status = fail(FA_INVALID, "fa_spec.reserved: must be 0");
  if (!status) status = check_variants(canonical.variants, given.variants);
  if (status) return status;

  canonical.pass = given.pass;
  canonical.target = given.target;
  canonical.arch = given.arch ? given.arch : default_arch(given.target);
  canonical.dtype = given.dtype;
  canonical.dim_qk = given.dim_qk;
  canonical.dim_v = given.dim_v ? given.dim_v : given.dim_qk;
  canonical.group = given.group ? given.group : 1;
  canonical.causal = given.causal;
  canonical.deterministic = given.deterministic;
  drop_idle_fields(&canonical);
  *out = canonical;
  return FA_OK;
}

/* ---- Words to struct ------------------------------------------------------------------------ */

static fa_status set_once(int32_t *field, int value, const char *axis, const char *word) {
  if (*field)
    return fail(FA_INVALID, "spec: '%s' names the %s a second time; each axis takes one word", word,
                axis);
  *field = value;
  return FA_OK;
}

/* Takes "d64" and its kin. *taken says whether the word was one. */
static fa_status take_number(fa_spec *spec, const char *word, int *taken) {
  for (size_t i = 0; i < sizeof number_axes / sizeof *number_axes; ++i) {
    const struct number_axis *axis = &number_axes[i];
    long number = number_after(word, axis->prefix);
    if (number == -1) continue;
    *taken = 1;
    if (axis->offset == offsetof(fa_spec, dim_qk) || axis->offset == offsetof(fa_spec, dim_v)) {
      fa_status status = check_dim(word, (int)number);
      if (status) return status;
    }
    if (number < 1) return fail(FA_INVALID, "spec: '%s'; its number must be 1 to 999999999", word);
    return set_once((int32_t *)((char *)spec + axis->offset), (int)number, axis->axis, word);
  }
  return FA_OK;
}

static fa_status take_word(fa_spec *spec, variant_list *variants, const char *word) {
  int value, taken = 0;
  if ((value = value_of(pass_words, word))) return set_once(&spec->pass, value, "pass", word);
  if ((value = value_of(target_words, word))) return set_once(&spec->target, value, "target", word);
  if ((value = value_of(dtype_words, word))) return set_once(&spec->dtype, value, "dtype", word);
  if (!strcmp(word, "causal")) return set_once(&spec->causal, 1, "word causal", word);
  if (!strcmp(word, "det")) return set_once(&spec->deterministic, 1, "word det", word);
  fa_status status = take_number(spec, word, &taken);
  return status || taken ? status : append_variant(variants, word);
}

static fa_status check_required(const fa_spec *spec, const char *words) {
  const char *missing = !spec->pass     ? "a pass (fwd, pre or bwd)"
                        : !spec->dtype  ? "a dtype (f16, bf16 or f32)"
                        : !spec->dim_qk ? "a head dimension (d8 to d256)"
                                        : NULL;
  return missing ? fail(FA_INVALID, "spec: '%.200s' lacks %s", words, missing) : FA_OK;
}

FA_API fa_status fa_spec_parse(fa_spec *out, const char *words) {
  fa_status status = struct_check_out(out, sizeof *out, "fa_spec");
  if (status) return status;
  if (!words)
    return fail(FA_INVALID, "words: NULL; a string such as \"fwd cpu f32 d64\" is required");
  fa_spec spec = FA_SPEC_INIT;
  variant_list variants = {spec.variants, 0};
  const char *const blanks = " \t\r\n";
  char word[64];
  for (const char *at = words; *(at += strspn(at, blanks));) {
    size_t length = strcspn(at, blanks);
    if (length >= sizeof word) return fail(FA_INVALID, "spec: '%.40s...' is no word", at);
    memcpy(word, at, length);
    word[length] = '\0';
    at += length;
    if ((status = take_word(&spec, &variants, word))) return status;
  }
  if ((status = check_required(&spec, words))) return status;
  fa_spec canonical;
  if ((status = spec_canonicalise(&canonical, &spec))) return status;
  size_t size = out->size;
  memset(out, 0, size);
  *out = canonical;
  out->size = size;
  return FA_OK;
}

/* ---- Struct to words ------------------------------------------------------------------------ */

typedef struct writer {
  char *buffer;
  size_t bytes, used;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *to, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = to->used < to->bytes ? to->bytes - to->used : 0;
  int n = vsnprintf(room ? to->buffer + to->used : NULL, room, format, arguments);
  va_end(arguments);
  if (n > 0) to->used += (size_t)n;
}

static void put_words(writer *to, const fa_spec *spec) {
  put(to, "%s", spec_pass_word(spec->pass));
  if (spec->target) put(to, " %s", spec_target_word(spec->target));
  if (spec->arch != default_arch(spec->target)) put(to, " cc%d", spec->arch);
  put(to, " %s d%d", spec_dtype_word(spec->dtype), spec->dim_qk);
  if (spec->dim_v != spec->dim_qk) put(to, " v%d", spec->dim_v);
  if (spec->group != 1) put(to, " gqa%d", spec->group);
  if (spec->causal) put(to, " causal");
  if (spec->deterministic) put(to, " det");
  if (spec->variants[0]) put(to, " %s", spec->variants);
}

/* Writes the canonical words. */
static fa_status print_words(writer *to, const fa_spec *spec) {
  fa_spec canonical;
  if (!to->buffer && to->bytes) return fail(FA_INVALID, "buffer: NULL, with bytes %zu", to->bytes);
  fa_status status = spec_canonicalise(&canonical, spec);
  if (!status) put_words(to, &canonical);
  return status;
}

static fa_status check_room(const writer *to) {
  if (to->used < to->bytes) return FA_OK;
  if (to->bytes) to->buffer[0] = '\0';
  return fail(FA_INVALID, "bytes: %zu; this spec takes %zu", to->bytes, to->used + 1);
}

FA_API fa_status fa_spec_print(char *buffer, size_t bytes, const fa_spec *spec) {
  writer to = {buffer, bytes, 0};
  fa_status status = print_words(&to, spec);
  return status ? status : check_room(&to);
}

/* A _ of a variant's name is doubled, so that no two specs have one name. */
FA_API fa_status fa_spec_name(char *buffer, size_t bytes, const fa_spec *spec) {
  char text[FA_NAME_MAX];
  writer words = {text, sizeof text, 0}, to = {buffer, bytes, 0};
  if (!buffer && bytes) return fail(FA_INVALID, "buffer: NULL, with bytes %zu", bytes);
  fa_status status = print_words(&words, spec);
  if (!status) status = check_room(&words);
  if (status) return status;
  put(&to, "fa_");
  for (const char *at = text; *at; ++at) {
    const char letter[] = {*at == ' ' ? '_' : *at, '\0'};
    put(&to, "%s%s", letter, *at == '_' ? "_" : "");
  }
  return check_room(&to);
}
