/* test_overlap.c: whether tensors share memory, against every byte of every element. */
#include "support/expect.h"

#include "runtime/overlap.h"

#include <stdio.h>
#include <string.h>

enum { ARENA = 4096, BASE = 1 << 20 };

static unsigned choose(unsigned below) {
  static uint64_t state = 2024;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

/* A footprint at `begin`, its end as runtime/args.c computes it. */
static footprint placed(uintptr_t begin, const int64_t extent[OVERLAP_DIMS],
                        const int64_t stride[OVERLAP_DIMS]) {
  footprint f = {.begin = begin};
  int64_t last = 0;
  for (int i = 0; i < OVERLAP_DIMS; ++i) {
    f.extent[i] = extent[i];
    f.stride[i] = stride[i];
    last += stride[i] * (extent[i] - 1);
  }
  f.end = begin + (uintptr_t)(last + stride[OVERLAP_DIMS - 1]);
  return f;
}

static const char *described(const footprint *f) {
  static char text[2][256];
  static int turn;
  char *to = text[turn ^= 1];
  snprintf(to, sizeof text[0], "[%d+%d: %d,%d,%d,%d by %d,%d,%d,%d]", (int)(f->begin - BASE),
           (int)(f->end - f->begin), (int)f->extent[0], (int)f->extent[1], (int)f->extent[2],
           (int)f->extent[3], (int)f->stride[0], (int)f->stride[1], (int)f->stride[2],
           (int)f->stride[3]);
  return to;
}

/* Adds 1 to every byte of every element; gives the largest count. */
static int mark(unsigned char *arena, const footprint *f) {
  int most = 0;
  for (int64_t b = 0; b < f->extent[0]; ++b)
    for (int64_t i = 0; i < f->extent[1]; ++i)
      for (int64_t h = 0; h < f->extent[2]; ++h)
        for (int64_t c = 0; c < f->extent[3]; ++c)
          for (int64_t n = 0; n < f->stride[3]; ++n) {
            int64_t at = (int64_t)(f->begin - BASE) + b * f->stride[0] + i * f->stride[1] +
                         h * f->stride[2] + c * f->stride[3] + n;
            assert_in_range(at, 0, ARENA - 1);
            int count = ++arena[at];
            if (count > most) most = count;
          }
  return most;
}

static int really_overlaps_itself(const footprint *f) {
  unsigned char arena[ARENA] = {0};
  return mark(arena, f) > 1;
}

static int really_overlap(const footprint *a, const footprint *b) {
  unsigned char seen[ARENA] = {0}, other[ARENA] = {0};
  mark(seen, a);
  mark(other, b);
  for (int i = 0; i < ARENA; ++i)
    if (seen[i] && other[i]) return 1;
  return 0;
}

/* Extents up to 4 and dimensions that nest, in any order, with gaps now and then. */
static void nested_layout(int64_t extent[OVERLAP_DIMS], int64_t stride[OVERLAP_DIMS]) {
  int order[] = {0, 1, 2};
  for (int i = 2; i > 0; --i) {
    int j = (int)choose((unsigned)i + 1), moved = order[i];
    order[i] = order[j];
    order[j] = moved;
  }
  extent[3] = 1 + choose(4);
  stride[3] = choose(2) ? 4 : 2;
  int64_t span = extent[3] * stride[3];
  for (int i = 0; i < 3; ++i) {
    extent[order[i]] = 1 + choose(4);
    stride[order[i]] = span + (choose(2) ? stride[3] * (int64_t)choose(4) : 0);
    span = stride[order[i]] * extent[order[i]];
  }
}

static void any_layout(int64_t extent[OVERLAP_DIMS], int64_t stride[OVERLAP_DIMS]) {
  extent[3] = 1 + choose(4);
  stride[3] = choose(2) ? 4 : 2;
  for (int i = 0; i < 3; ++i) {
    extent[i] = 1 + choose(4);
    stride[i] = stride[3] * (int64_t)choose(20);
  }
}

static void overlaps_of_one_tensor_are_never_missed(void **state) {
  int overlapping = 0, apart = 0;
  (void)state;
  for (int n = 0; n < 40000; ++n) {
    int64_t extent[OVERLAP_DIMS], stride[OVERLAP_DIMS];
    any_layout(extent, stride);
    footprint f = placed(BASE, extent, stride);
    int truth = really_overlaps_itself(&f), answer = overlap_self(&f);
    if (truth && !answer) fail_msg("%s overlaps itself, unseen", described(&f));
    overlapping += truth;
    apart += !answer;
  }
  assert_true(overlapping > 1000 && apart > 1000);
}

static void nested_layouts_do_not_overlap_themselves(void **state) {
  (void)state;
  for (int n = 0; n < 20000; ++n) {
    int64_t extent[OVERLAP_DIMS], stride[OVERLAP_DIMS];
    nested_layout(extent, stride);
    footprint f = placed(BASE, extent, stride);
    assert_false(really_overlaps_itself(&f));
    if (overlap_self(&f)) fail_msg("%s does not overlap itself", described(&f));
    for (int i = 0; i < 3; ++i)
      if (f.extent[i] > 1) {
        f.stride[i] = 0;
        if (!overlap_self(&f)) fail_msg("%s repeats its elements", described(&f));
        break;
      }
  }
}

static void overlaps_of_two_tensors_are_never_missed(void **state) {
  int overlapping = 0, apart = 0;
  (void)state;
  for (int n = 0; n < 40000; ++n) {
    int64_t extent[2][OVERLAP_DIMS], stride[2][OVERLAP_DIMS];
    footprint f[2];
    for (int i = 0; i < 2; ++i) {
      any_layout(extent[i], stride[i]);
      f[i] = placed(BASE + 2 * choose(200), extent[i], stride[i]);
    }
    int truth = really_overlap(&f[0], &f[1]), answer = overlap_pair(&f[0], &f[1]);
    if (truth && !answer) fail_msg("%s and %s overlap, unseen", described(&f[0]), described(&f[1]));
    assert_int_equal(answer, overlap_pair(&f[1], &f[0]));
    overlapping += truth;
    apart += !answer;
  }
  assert_true(overlapping > 1000 && apart > 1000);
}

/* Views of one packed tensor: equal strides, extents of their own, any distance. */
static void views_of_one_tensor_are_told_apart_exactly(void **state) {
  int overlapping = 0, interleaved = 0;
  (void)state;
  for (int n = 0; n < 60000; ++n) {
    int64_t extent[2][OVERLAP_DIMS], stride[OVERLAP_DIMS];
    nested_layout(extent[0], stride);
    for (int i = 0; i < OVERLAP_DIMS; ++i) extent[1][i] = 1 + choose((unsigned)extent[0][i]);
    footprint a = placed(BASE, extent[0], stride);
    footprint b = placed(BASE + (uintptr_t)stride[3] * choose(40), extent[1], stride);
    int truth = really_overlap(&a, &b);
    if (overlap_pair(&a, &b) != truth || overlap_pair(&b, &a) != truth)
      fail_msg("%s and %s %s", described(&a), described(&b), truth ? "overlap" : "do not overlap");
    overlapping += truth;
    interleaved += !truth && b.begin < a.end;
  }
  assert_true(overlapping > 1000 && interleaved > 1000);
}

/* Sizes as they come: [batch][seqlen][3][heads][dim], gigabytes, decided at once. */
static void large_packed_tensors_are_decided_at_once(void **state) {
  const int64_t batch = 64, seqlen = 1 << 20, heads = 128, dim = 256;
  const int64_t extent[] = {batch, seqlen, heads, dim};
  const int64_t stride[] = {seqlen * 3 * heads * dim * 2, 3 * heads * dim * 2, dim * 2, 2};
  footprint f[3];
  (void)state;
  for (int i = 0; i < 3; ++i)
    f[i] = placed(BASE + (uintptr_t)(i * heads * dim * 2), extent, stride);
  for (int i = 0; i < 3; ++i) {
    assert_false(overlap_self(&f[i]));
    for (int j = 0; j < 3; ++j) assert_int_equal(overlap_pair(&f[i], &f[j]), i == j);
  }
  footprint shifted = placed(BASE + (uintptr_t)(dim * 2 - 2), extent, stride);
  assert_true(overlap_pair(&f[0], &shifted));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overlaps_of_one_tensor_are_never_missed),
      cmocka_unit_test(nested_layouts_do_not_overlap_themselves),
      cmocka_unit_test(overlaps_of_two_tensors_are_never_missed),
      cmocka_unit_test(views_of_one_tensor_are_told_apart_exactly),
      cmocka_unit_test(large_packed_tensors_are_decided_at_once),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
