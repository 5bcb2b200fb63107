/* test_fast_math.c: compiler options that relax arithmetic find nothing to relax: the machine code
   stays the same to the byte, so a kernel means what its text says. Needs NVRTC and no GPU. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"

#include "gpu_code.h"

static const char *const lines[] = {
    "fwd sm80 bf16 d64 causal",
    "fwd sm80 f16 d256 cc86",
    "bwd sm80 bf16 d128",
    "bwd sm80 f16 d72 det gqa4",
    "bwd sm80 bf16 d64 cc120",
    "pre sm80 bf16 d128",
    "fwd sm80 bf16 d128 cc100",
    "fwd sm80 f16 d128 cc90",
    "bwd sm80 f16 d64 cc100 causal",
    "fwd sm90 bf16 d64,128,192",
    "fwd sm90 f16 d256 causal",
    "bwd sm90 bf16 d128 causal",
    "bwd sm90 f16 d64 gqa4 det",
    "bwd sm90 bf16 d256",
    "pre sm90 f16 d128",
    "bwd sm80 bf16 d64 bias",
    "fwd sm80 bf16 d64 causal softcap alibi sink",
    "bwd sm90 bf16 d64 causal softcap alibi sink",
    "fwd sm90 bf16 d64 window,block_draft",
    "bwd sm80 bf16 d64 prefix_lm",
    "fwd sm80 f16 d64 dilated,block_draft",
    "bwd sm90 bf16 d64 document bias",
    "fwd sm80 bf16 d64 shaped,gated,patchwork", /* comparisons of floats, from here on */
    "bwd sm80 bf16 d64 steps,shaped",
    "fwd sm90 bf16 d64 steps,shaped",
    "bwd sm90 f16 d64 shaped",
};

static Elf64_Shdr section_at(const cubin *of, int index) {
  Elf64_Ehdr head;
  Elf64_Shdr section;
  memcpy(&head, of->image, sizeof head);
  memcpy(&section, (const char *)of->image + head.e_shoff + (size_t)index * sizeof section,
         sizeof section);
  return section;
}

/* The index of the first section from `index` on whose name begins with `prefix`, 0: none. */
static int next_section(const cubin *of, int index, const char *prefix) {
  Elf64_Ehdr head;
  memcpy(&head, of->image, sizeof head);
  const char *names = (const char *)of->image + section_at(of, head.e_shstrndx).sh_offset;
  for (; index < head.e_shnum; ++index)
    if (!strncmp(names + section_at(of, index).sh_name, prefix, strlen(prefix))) return index;
  return 0;
}

/* Whether the sections of that name are the same in both; *bytes gets their size. */
static int same_sections(const cubin *a, const cubin *b, const char *prefix, size_t *bytes) {
  int i = next_section(a, 1, prefix), j = next_section(b, 1, prefix);
  for (*bytes = 0; i && j; i = next_section(a, i + 1, prefix), j = next_section(b, j + 1, prefix)) {
    const Elf64_Shdr left = section_at(a, i), right = section_at(b, j);
    if (left.sh_size != right.sh_size ||
        memcmp((const char *)a->image + left.sh_offset, (const char *)b->image + right.sh_offset,
               left.sh_size))
      return 0;
    *bytes += left.sh_size;
  }
  return !i && !j;
}

static int same_code(const cubin *a, const cubin *b, size_t *bytes) {
  size_t constants;
  return same_sections(a, b, ".text.", bytes) &&
         same_sections(a, b, ".nv.constant2.", &constants) && *bytes;
}

/* Compiled without options, once for all tests. */
static gpu_code_list plain;

static void expect_same_code(const char *option) {
  gpu_code_list relaxed;
  int differ = 0;
  gpu_code_compile(&relaxed, lines, COUNT_OF(lines), option);
  assert_int_equal(plain.count, relaxed.count);
  for (size_t i = 0; i < plain.count; ++i) {
    const gpu_code *a = &plain.items[i], *b = &relaxed.items[i];
    size_t bytes = 0;
    const char *failure = a->failure ? a->failure : b->failure;
    const int same = !failure && same_code(&a->code, &b->code, &bytes);
    if (same)
      printf("  %-34s %s: %zu bytes, the same\n", a->words, option, bytes);
    else
      printf("  %-34s %s: FAULT: %.400s\n", a->words, option, failure ? failure : "other code");
    differ += !same;
  }
  gpu_code_free(&relaxed);
  fflush(stdout); /* before the message, which goes to stderr */
  if (differ) fail_msg("%d specs differ or fail with %s", differ, option);
}

static void fast_math_changes_nothing(void **state) {
  (void)state;
  expect_same_code("--use_fast_math");
}

static void forbidding_contraction_changes_nothing(void **state) {
  (void)state;
  expect_same_code("--fmad=false");
}

static void plain_arithmetic_would_be_seen(void **state) {
  (void)state;
  static const char source[] = "extern \"C\" __global__ void plain(float *x, float y) {\n"
                               "  x[threadIdx.x] = x[threadIdx.x] * y + y / x[1];\n"
                               "}\n";
  static const char *const options[] = {"--use_fast_math", "--fmad=false"};
  gpu_code_list strict, relaxed;
  size_t bytes;
  gpu_code_compile_source(&strict, "fwd sm80 bf16 d64", source, NULL);
  for (size_t i = 0; i < COUNT_OF(options); ++i) {
    gpu_code_compile_source(&relaxed, "fwd sm80 bf16 d64", source, options[i]);
    assert_null(strict.items->failure);
    assert_null(relaxed.items->failure);
    assert_true(same_code(&strict.items->code, &strict.items->code, &bytes));
    if (same_code(&strict.items->code, &relaxed.items->code, &bytes))
      fail_msg("%s has changed nothing in %zu bytes", options[i], bytes);
    gpu_code_free(&relaxed);
  }
  gpu_code_free(&strict);
}

static int compile_plain(void **state) {
  (void)state;
  gpu_code_compile(&plain, lines, COUNT_OF(lines), NULL);
  return 0;
}

static int forget_plain(void **state) {
  (void)state;
  gpu_code_free(&plain);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fast_math_changes_nothing),
      cmocka_unit_test(forbidding_contraction_changes_nothing),
      cmocka_unit_test(plain_arithmetic_would_be_seen),
  };
  int missing = gpu_code_open("test_fast_math");
  return missing ? missing
                 : cmocka_run_group_tests_name("fast_math", tests, compile_plain, forget_plain);
}
