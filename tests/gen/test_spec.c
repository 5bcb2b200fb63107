/* test_spec.c: words to struct and back: one canonical form for every spelling, and a sentence for
   everything that is no spec. */
#include "support/expect.h"

#include "gen/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fa_spec parsed(const char *words) {
  fa_spec spec = FA_SPEC_INIT;
  expect_ok(fa_spec_parse(&spec, words));
  return spec;
}

static const char *printed(const fa_spec *spec) {
  static char words[FA_NAME_MAX];
  expect_ok(fa_spec_print(words, sizeof words, spec));
  return words;
}

static fa_spec valid_spec(void) {
  return parsed("bwd cpu bf16 d64");
}

/* A repeatable source of choices. */
static unsigned choose(unsigned below) {
  static uint64_t state = 12345;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

/* ---- Canonical form ------------------------------------------------------------------------- */

static void assert_order_is_free(char *words[], int count, int fixed, const fa_spec *wanted) {
  if (fixed == count) {
    char line[FA_NAME_MAX] = "";
    for (int i = 0; i < count; ++i) strcat(strcat(line, " "), words[i]);
    fa_spec spec = parsed(line);
    if (memcmp(&spec, wanted, sizeof spec)) fail_msg("'%s' is another spec", line);
    return;
  }
  for (int i = fixed; i < count; ++i) {
    char *moved = words[i];
    words[i] = words[fixed];
    words[fixed] = moved;
    assert_order_is_free(words, count, fixed + 1, wanted);
    words[fixed] = words[i];
    words[i] = moved;
  }
}

static void words_in_any_order_are_one_spec(void **state) {
  char *words[] = {"det", "gqa4", "d128", "causal", "bf16", "v64", "bwd", "cpu"};
  (void)state;
  fa_spec wanted = parsed("bwd cpu bf16 d128 v64 gqa4 causal det");
  assert_order_is_free(words, COUNT_OF(words), 0, &wanted);
  assert_string_equal(printed(&wanted), "bwd cpu bf16 d128 v64 gqa4 causal det");
}

static void spellings_have_one_canonical_form(void **state) {
  static const char *const cases[][2] = {
      {"fwd f16 d64", "fwd f16 d64"},
      {"d64 v64 gqa1 f16 fwd", "fwd f16 d64"},
      {"  fwd\t\r\n f16\nd64 ", "fwd f16 d64"},
      {"fwd cpu f32 d8 det", "fwd cpu f32 d8"},
      {"fwd cpu f32 d256 v8 causal det", "fwd cpu f32 d256 v8 causal"},
      {"bwd cpu f32 d64 det causal", "bwd cpu f32 d64 causal det"},
      {"pre cpu f32 d64 gqa2 causal det", "pre cpu f32 d64 gqa2"},
      {"pre cpu f32 d64 softcap window", "pre cpu f32 d64"},
      {"sm80 cc80 fwd bf16 d64", "fwd sm80 bf16 d64"},
      {"sm80 cc120 fwd bf16 d64", "fwd sm80 cc120 bf16 d64"},
      {"cc90 fwd bf16 d64 sm80", "fwd sm80 cc90 bf16 d64"},
      {"sm90 cc90 fwd bf16 d64", "fwd sm90 bf16 d64"},
      {"window fwd cpu softcap f32 d64", "fwd cpu f32 d64 window softcap"},
      {"softcap fwd cpu window f32 d64 causal", "fwd cpu f32 d64 causal softcap window"},
      {"fwd cpu f32 d064", "fwd cpu f32 d64"},
      {"fwd cpu f32 d64 a_b2 a a2", "fwd cpu f32 d64 a_b2 a a2"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fa_spec a = parsed(cases[i][0]), b = parsed(cases[i][1]);
    assert_string_equal(printed(&a), cases[i][1]);
    if (memcmp(&a, &b, sizeof a)) fail_msg("'%s' and '%s' differ", cases[i][0], cases[i][1]);
  }
}

static void names_are_the_words_joined(void **state) {
  char name[FA_NAME_MAX];
  fa_spec spec = parsed("softcap bwd sm90 bf16 d128 gqa4 causal det");
  (void)state;
  expect_ok(fa_spec_name(name, sizeof name, &spec));
  assert_string_equal(name, "fa_bwd_sm90_bf16_d128_gqa4_causal_det_softcap");
}

/* Every byte of a canonical spec is determined, whatever stood in the unused ones. */
static void a_canonical_spec_can_be_compared_by_bytes(void **state) {
  fa_spec a = FA_SPEC_INIT, b, from_a, from_b;
  (void)state;
  a.pass = FA_BWD;
  a.target = FA_TARGET_CPU;
  a.dtype = FA_F16;
  a.dim_qk = 80;
  b = a;
  b.dim_v = 80;
  b.group = 1;
  strcpy(a.variants, "window softcap");
  memset(b.variants, 'x', sizeof b.variants);
  strcpy(b.variants, "  window   softcap ");
  memset(&from_a, 0x11, sizeof from_a);
  memset(&from_b, 0x22, sizeof from_b);
  expect_ok(spec_canonicalise(&from_a, &a));
  expect_ok(spec_canonicalise(&from_b, &b));
  assert_memory_equal(&from_a, &from_b, sizeof from_a);
}

static fa_spec random_spec(void) {
  static const int archs[] = {0, 80, 86, 89, 90, 100, 120};
  static const char *const variants[] = {"", "softcap", "window softcap", "a b_2 c3"};
  fa_spec spec = FA_SPEC_INIT;
  spec.pass = 1 + (int)choose(3);
  spec.target = (int)choose(4);
  if (spec.target == FA_TARGET_SM80) spec.arch = archs[choose(COUNT_OF(archs))];
  if (spec.target == FA_TARGET_SM90) spec.arch = choose(2) ? 90 : 0;
  spec.dtype = spec.target >= FA_TARGET_SM80 ? 1 + (int)choose(2) : 1 + (int)choose(3);
  spec.dim_qk = 8 * (1 + (int)choose(32));
  spec.dim_v = choose(2) ? 8 * (1 + (int)choose(32)) : 0;
  spec.group = choose(2) ? 1 + (int)choose(1000) : 0;
  spec.causal = (int)choose(2);
  spec.deterministic = (int)choose(2);
  strcpy(spec.variants, variants[choose(COUNT_OF(variants))]);
  return spec;
}

static void printing_and_parsing_are_inverse(void **state) {
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    fa_spec given = random_spec(), canonical = FA_SPEC_INIT, again = FA_SPEC_INIT;
    char name[FA_NAME_MAX], joined[FA_NAME_MAX + 3];
    expect_ok(spec_canonicalise(&canonical, &given));
    expect_ok(spec_canonicalise(&again, &canonical));
    assert_memory_equal(&again, &canonical, sizeof again);
    const char *words = printed(&given);
    fa_spec back = parsed(words);
    if (memcmp(&back, &canonical, sizeof back)) fail_msg("'%s' comes back as another spec", words);
    expect_ok(fa_spec_name(name, sizeof name, &given));
    size_t used = (size_t)snprintf(joined, sizeof joined, "fa_");
    for (const char *at = words; *at; ++at) {
      if (*at == '_') joined[used++] = '_';
      joined[used++] = *at == ' ' ? '_' : *at;
    }
    joined[used] = '\0';
    assert_string_equal(name, joined);
  }
}

static const char *named(const char *words) {
  static char name[FA_NAME_MAX];
  fa_spec spec = parsed(words);
  expect_ok(fa_spec_name(name, sizeof name, &spec));
  return name;
}

/* The name is that of the function, of files and of what is kept on disk. */
static void no_two_specs_have_one_name(void **state) {
  (void)state;
  assert_string_equal(named("fwd f16 d8 a b"), "fa_fwd_f16_d8_a_b");
  assert_string_equal(named("fwd f16 d8 a_b"), "fa_fwd_f16_d8_a__b");
  assert_string_equal(named("bwd f16 d8 det x"), "fa_bwd_f16_d8_det_x");
  assert_string_equal(named("bwd f16 d8 det_x"), "fa_bwd_f16_d8_det__x");
}

/* ---- Words that are no spec ----------------------------------------------------------------- */

static void wrong_words_are_named(void **state) {
  static const char *const cases[][2] = {
      {"", "lacks a pass|fwd, pre or bwd"},
      {"cpu f32 d64", "'cpu f32 d64' lacks a pass"},
      {"fwd cpu d64", "lacks a dtype|f16, bf16 or f32"},
      {"fwd cpu f32", "lacks a head dimension|d8 to d256"},
      {"fwd fwd cpu f32 d64", "'fwd'|pass|second time"},
      {"fwd bwd cpu f32 d64", "'bwd'|pass|second time"},
      {"fwd cpu cpu f32 d64", "'cpu'|target|second time"},
      {"fwd cpu sm80 f16 d64", "'sm80'|target|second time"},
      {"fwd cpu f32 f16 d64", "'f16'|dtype|second time"},
      {"fwd cpu f32 f32 d64", "'f32'|dtype|second time"},
      {"fwd cpu f32 d64 d64", "'d64'|head dimension|second time"},
      {"fwd cpu f32 d64 d128", "'d128'|head dimension|second time"},
      {"fwd cpu f32 d64 v64 v64", "'v64'|dim_v|second time"},
      {"fwd cpu f32 d64 gqa2 gqa4", "'gqa4'|group|second time"},
      {"fwd sm80 cc80 cc86 f16 d64", "'cc86'|arch|second time"},
      {"fwd cpu f32 d64 causal causal", "'causal'|second time"},
      {"bwd cpu f32 d64 det det", "'det'|second time"},
      {"fwd cpu f32 d64 window a window", "'window' is named twice"},
      {"fwd cpu f32 d0", "d0: 0|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d4", "d4: 4|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d60", "d60: 60|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d257", "d257: 257|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d264", "d264: 264|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d99999999999999999999", "d99999999999999999999|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d64 v0", "v0: 0|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d64 v264", "v264: 264|multiple of 8 from 8 to 256"},
      {"fwd cpu f32 d64 gqa0", "'gqa0'|1 to 999999999"},
      {"fwd cpu f32 d64 gqa4294967297", "'gqa4294967297'|1 to 999999999"},
      {"fwd sm80 cc0 f16 d64", "'cc0'|1 to 999999999"},
      {"fwd sm80 cc70 f16 d64", "arch: 70|80 86 89 90 100 120"},
      {"fwd sm90 cc80 f16 d64", "arch: 80|sm90|90 only"},
      {"fwd cc80 f16 d64", "arch: 80|a target that is named"},
      {"fwd cpu cc80 f16 d64", "arch: 80|cpu target has none"},
      {"fwd sm80 f32 d64", "dtype: f32|cpu|sm80 takes f16 and bf16"},
      {"fwd sm90 f32 d64", "dtype: f32|cpu|sm90 takes f16 and bf16"},
      {"fwd cpu f32 d64 Window", "'Window'|a-z 0-9 _"},
      {"fwd cpu f32 d64 d-8", "'d-8'|a-z 0-9 _"},
      {"fwd cpu f32 d64 2pass", "'2pass'|begins with a letter"},
      {"fwd cpu f32 d64 ../x", "'../x'|a-z 0-9 _"},
      {"fwd cpu f32 d64 na\xc3\xafve", "a-z 0-9 _"},
      {"fwd cpu f32 d64 a_name_of_more_than_31_characters_", "a_name_of_more_than_31|1 to 31"},
      {"fwd cpu f32 d64 a_word_so_long_that_it_cannot_be_a_word_of_any_spec_whatever_it_says_",
       "is no word"},
      {"fwd cpu f32 d64 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb "
       "ccccccccccccccccccccccccccccccc ddddddddddddddddddddddd e",
       "too long at 'e'|at most 119"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fa_spec spec, before;
    memset(&spec, 0x5a, sizeof spec);
    spec.size = sizeof spec;
    before = spec;
    expect_refused(fa_spec_parse(&spec, cases[i][0]), FA_INVALID, cases[i][1]);
    if (memcmp(&spec, &before, sizeof spec)) fail_msg("'%s' wrote to out", cases[i][0]);
  }
}

static void the_longest_names_fit(void **state) {
  char name[FA_NAME_MAX];
  (void)state;
  fa_spec spec = parsed("bwd sm80 cc120 bf16 d256 v248 gqa999999999 causal det "
                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb "
                        "ccccccccccccccccccccccccccccccc ddddddddddddddddddddd e");
  spec.group = INT32_MAX;
  assert_int_equal(strlen(spec.variants), FA_VARIANTS_MAX - 1);
  expect_ok(fa_spec_name(name, sizeof name, &spec));
  for (size_t i = 1; i + 2 < sizeof spec.variants; i += 2) /* a_a_a ... */
    if (spec.variants[i] != ' ' && spec.variants[i - 1] != ' ' && spec.variants[i + 1] != ' ')
      spec.variants[i] = '_';
  expect_ok(fa_spec_name(name, sizeof name, &spec));
  assert_true(strlen(name) < FA_NAME_MAX);
}

/* ---- Fields --------------------------------------------------------------------------------- */

typedef struct field_case {
  size_t offset;
  int32_t value;
  const char *words;
} field_case;

#define FIELD(name, value, words) \
  { offsetof(fa_spec, name), value, words }

static void wrong_fields_are_named(void **state) {
  static const field_case cases[] = {
      FIELD(pass, 0, "pass: 0|fwd, pre, bwd"),
      FIELD(pass, 4, "pass: 4|fwd, pre, bwd"),
      FIELD(pass, -1, "pass: -1"),
      FIELD(target, -1, "target: -1|_CPU"),
      FIELD(target, 4, "target: 4|_SM90"),
      FIELD(arch, 80, "arch: 80|cpu target has none"),
      FIELD(arch, -1, "arch: -1"),
      FIELD(dtype, 0, "dtype: 0|f16, bf16, f32"),
      FIELD(dtype, 4, "dtype: 4|f16, bf16, f32"),
      FIELD(dim_qk, 0, "dim_qk: 0|8 to 256"),
      FIELD(dim_qk, 4, "dim_qk: 4|8 to 256"),
      FIELD(dim_qk, 257, "dim_qk: 257|8 to 256"),
      FIELD(dim_qk, 264, "dim_qk: 264|8 to 256"),
      FIELD(dim_qk, -8, "dim_qk: -8|8 to 256"),
      FIELD(dim_qk, INT_MIN, "dim_qk: -2147483648|8 to 256"),
      FIELD(dim_v, 4, "dim_v: 4|8 to 256"),
      FIELD(dim_v, 264, "dim_v: 264|8 to 256"),
      FIELD(dim_v, -64, "dim_v: -64|8 to 256"),
      FIELD(group, -1, "group: -1|1 or more"),
      FIELD(causal, 2, "causal: 2|0 or 1"),
      FIELD(causal, -1, "causal: -1|0 or 1"),
      FIELD(deterministic, 2, "deterministic: 2|0 or 1"),
      FIELD(reserved, 1, "reserved|must be 0"),
  };
  char words[FA_NAME_MAX];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    fa_spec spec = valid_spec(), out = valid_spec();
    memcpy((char *)&spec + cases[i].offset, &cases[i].value, sizeof cases[i].value);
    expect_refused(fa_spec_print(words, sizeof words, &spec), FA_INVALID, cases[i].words);
    expect_refused(fa_spec_name(words, sizeof words, &spec), FA_INVALID, cases[i].words);
    expect_refused(spec_canonicalise(&out, &spec), FA_INVALID, cases[i].words);
  }
}

/* A variant with the name of another word, or with a _ that is not single, would give two specs one
   function name. */
static void a_variant_cannot_have_the_name_of_another_word(void **state) {
  static const char *const names[] = {"causal", "det",  "fwd",  "bwd",  "cpu",
                                      "sm90",   "bf16", "d128", "v64",  "d64",
                                      "v7",     "gqa2", "cc80", "a__b", "a_"};
  char words[FA_NAME_MAX];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(names); ++i) {
    fa_spec spec = valid_spec();
    snprintf(spec.variants, sizeof spec.variants, "window %s", names[i]);
    expect_refused(fa_spec_print(words, sizeof words, &spec), FA_INVALID, "variants: '");
    expect_words(names[i], fa_error_message(), names[i]);
  }
}

static void variants_without_an_end_are_refused(void **state) {
  char words[FA_NAME_MAX];
  fa_spec spec = valid_spec();
  (void)state;
  memset(spec.variants, 'a', sizeof spec.variants);
  expect_refused(fa_spec_print(words, sizeof words, &spec), FA_INVALID, "variants|no final 0|120");
  spec.variants[FA_VARIANTS_MAX - 1] = '\0';
  expect_refused(fa_spec_print(words, sizeof words, &spec), FA_INVALID, "variants|1 to 31");
}

static int32_t combination_is_right(int target, int arch, int dtype) {
  static const int of_sm80[] = {80, 86, 89, 90, 100, 120};
  int known = 0;
  for (size_t i = 0; i < COUNT_OF(of_sm80); ++i) known |= arch == of_sm80[i];
  if (target < FA_TARGET_BEST || target > FA_TARGET_SM90) return 0;
  if (dtype < FA_F16 || dtype > FA_F32) return 0;
  if (dtype == FA_F32 && target >= FA_TARGET_SM80) return 0;
  if (arch == 0) return 1;
  return (target == FA_TARGET_SM80 && known) || (target == FA_TARGET_SM90 && arch == 90);
}

static void targets_archs_and_dtypes_combine_as_the_header_says(void **state) {
  static const int archs[] = {0, 70, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121, -80};
  (void)state;
  for (int target = -1; target <= 4; ++target)
    for (size_t a = 0; a < COUNT_OF(archs); ++a)
      for (int dtype = 0; dtype <= 4; ++dtype) {
        fa_spec spec = valid_spec(), out = FA_SPEC_INIT;
        spec.target = target;
        spec.arch = archs[a];
        spec.dtype = dtype;
        fa_status wanted = combination_is_right(target, archs[a], dtype) ? FA_OK : FA_INVALID;
        fa_status got = spec_canonicalise(&out, &spec);
        if (got != wanted)
          fail_msg("target %d, arch %d, dtype %d: %s", target, archs[a], dtype,
                   fa_status_name(got));
        int implied = target == FA_TARGET_SM80 ? 80 : target == FA_TARGET_SM90 ? 90 : 0;
        if (!got) assert_int_equal(out.arch, archs[a] ? archs[a] : implied);
      }
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void every_buffer_size_is_respected(void **state) {
  fa_spec spec = parsed("bwd cpu bf16 d128 v64 gqa4 causal det softcap");
  size_t needed = strlen(printed(&spec)) + 1;
  char buffer[FA_NAME_MAX], wanted[64];
  (void)state;
  for (size_t bytes = 0; bytes < sizeof buffer; ++bytes) {
    memset(buffer, '#', sizeof buffer);
    if (bytes < needed) {
      snprintf(wanted, sizeof wanted, "bytes: %zu|takes %zu", bytes, needed);
      expect_refused(fa_spec_print(buffer, bytes, &spec), FA_INVALID, wanted);
      if (bytes) assert_int_equal(buffer[0], '\0');
    } else {
      expect_ok(fa_spec_print(buffer, bytes, &spec));
      assert_int_equal(strlen(buffer), needed - 1);
    }
    for (size_t i = bytes; i < sizeof buffer; ++i) assert_int_equal(buffer[i], '#');
  }
  expect_ok(fa_spec_name(buffer, needed + 3, &spec));
  expect_refused(fa_spec_name(buffer, needed + 2, &spec), FA_INVALID, "bytes:|takes");
  expect_refused(fa_spec_print(NULL, 10, &spec), FA_INVALID, "buffer: NULL");
  expect_refused(fa_spec_name(NULL, 10, &spec), FA_INVALID, "buffer: NULL");
}

static void null_pointers_are_named(void **state) {
  fa_spec spec = FA_SPEC_INIT;
  char words[FA_NAME_MAX];
  (void)state;
  expect_refused(fa_spec_parse(NULL, "fwd cpu f32 d64"), FA_INVALID, "fa_spec: NULL");
  expect_refused(fa_spec_parse(&spec, NULL), FA_INVALID, "words: NULL");
  expect_refused(fa_spec_print(words, sizeof words, NULL), FA_INVALID, "fa_spec: NULL");
  expect_refused(fa_spec_name(words, sizeof words, NULL), FA_INVALID, "fa_spec: NULL");
}

typedef struct larger_spec {
  fa_spec spec;
  unsigned char tail[32];
} larger_spec;

static void struct_sizes_are_checked(void **state) {
  static const size_t wrong[] = {0, 1, 8, sizeof(fa_spec) - 1, SIZE_MAX, SIZE_MAX / 2, 1 << 20};
  char words[FA_NAME_MAX];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(wrong); ++i) {
    fa_spec spec = valid_spec(), out = FA_SPEC_INIT;
    char value[64];
    spec.size = out.size = wrong[i];
    snprintf(value, sizeof value, "fa_spec.size: %zu|must be at", wrong[i]);
    expect_refused(fa_spec_print(words, sizeof words, &spec), FA_BAD_STRUCT, value);
    expect_refused(fa_spec_parse(&out, "fwd cpu f32 d64"), FA_BAD_STRUCT, value);
  }
}

static void a_newer_struct_is_accepted_while_its_tail_is_zero(void **state) {
  larger_spec given = {.spec = FA_SPEC_INIT}, out;
  char words[FA_NAME_MAX], value[64];
  (void)state;
  given.spec = valid_spec();
  given.spec.size = sizeof given;
  expect_ok(fa_spec_print(words, sizeof words, &given.spec));
  assert_string_equal(words, "bwd cpu bf16 d64");
  for (size_t i = 0; i < sizeof given.tail; ++i) {
    memset(given.tail, 0, sizeof given.tail);
    given.tail[i] = 1;
    snprintf(value, sizeof value, "fa_spec|byte %zu|first %zu", sizeof(fa_spec) + i,
             sizeof(fa_spec));
    expect_refused(fa_spec_print(words, sizeof words, &given.spec), FA_BAD_STRUCT, value);
  }

  memset(&out, 0xff, sizeof out);
  out.spec.size = sizeof out;
  expect_ok(fa_spec_parse(&out.spec, "bwd cpu bf16 d64"));
  assert_int_equal(out.spec.size, sizeof out);
  for (size_t i = 0; i < sizeof out.tail; ++i) assert_int_equal(out.tail[i], 0);
}

/* ---- Visiting variants ---------------------------------------------------------------------- */

typedef struct visits {
  char seen[64];
  int allowed;
} visits;

static fa_status visit(void *to, const char *name) {
  visits *v = to;
  if (v->allowed-- == 0) return FA_UNSUPPORTED;
  strcat(strcat(v->seen, "/"), name);
  return FA_OK;
}

static void variants_are_visited_in_order_until_one_fails(void **state) {
  visits all = {.allowed = 9}, some = {.allowed = 2}, none = {.allowed = 0};
  (void)state;
  assert_int_equal(spec_each_variant("window softcap a", visit, &all), FA_OK);
  assert_string_equal(all.seen, "/window/softcap/a");
  assert_int_equal(spec_each_variant("window softcap a", visit, &some), FA_UNSUPPORTED);
  assert_string_equal(some.seen, "/window/softcap");
  assert_int_equal(spec_each_variant("", visit, &none), FA_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_in_any_order_are_one_spec),
      cmocka_unit_test(spellings_have_one_canonical_form),
      cmocka_unit_test(names_are_the_words_joined),
      cmocka_unit_test(a_canonical_spec_can_be_compared_by_bytes),
      cmocka_unit_test(printing_and_parsing_are_inverse),
      cmocka_unit_test(wrong_words_are_named),
      cmocka_unit_test(no_two_specs_have_one_name),
      cmocka_unit_test(the_longest_names_fit),
      cmocka_unit_test(wrong_fields_are_named),
      cmocka_unit_test(a_variant_cannot_have_the_name_of_another_word),
      cmocka_unit_test(variants_without_an_end_are_refused),
      cmocka_unit_test(targets_archs_and_dtypes_combine_as_the_header_says),
      cmocka_unit_test(every_buffer_size_is_respected),
      cmocka_unit_test(null_pointers_are_named),
      cmocka_unit_test(struct_sizes_are_checked),
      cmocka_unit_test(a_newer_struct_is_accepted_while_its_tail_is_zero),
      cmocka_unit_test(variants_are_visited_in_order_until_one_fails),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
