/* test_storage.c: the conversions of the checks themselves, against bit patterns and the compiler.
 */
#include "support.h"

#include "runtime/cli/random.h"
#include "runtime/cli/storage.h"

#include <math.h>
#include <string.h>

static uint16_t half_bits(double value, int dtype) {
  uint16_t bits;
  storage_write(&bits, value, dtype);
  return bits;
}

static void every_finite_half_survives_a_round_trip(void **state) {
  (void)state;
  for (int dtype = FA_F16; dtype <= FA_BF16; ++dtype)
    for (unsigned bits = 0; bits < 65536; ++bits) {
      uint16_t stored = (uint16_t)bits;
      double value = storage_read(&stored, dtype);
      if (!isnan(value) && half_bits(value, dtype) != bits)
        fail_msg("dtype %d: 0x%04x came back as 0x%04x", dtype, bits, half_bits(value, dtype));
    }
}

static void neighbours_meet_half_way_at_the_even_one(void **state) {
  (void)state;
  for (int dtype = FA_F16; dtype <= FA_BF16; ++dtype)
    for (unsigned bits = 0; bits < (dtype == FA_F16 ? 0x7bffu : 0x7f7fu); ++bits) {
      uint16_t low = (uint16_t)bits, high = (uint16_t)(bits + 1);
      double below = storage_read(&low, dtype), above = storage_read(&high, dtype);
      double middle = (below + above) / 2, even = bits % 2 ? above : below;
      assert_near("half way", storage_round(middle, dtype), even, 0);
      assert_near("just above", storage_round(nextafter(middle, INFINITY), dtype), above, 0);
      assert_near("just below", storage_round(nextafter(middle, 0), dtype), below, 0);
    }
}

static void too_large_becomes_infinite(void **state) {
  (void)state;
  assert_near("largest f16", storage_round(65519.999, FA_F16), 65504, 0);
  assert_near("above it", storage_round(65520, FA_F16), INFINITY, 0);
  assert_near("largest bf16", storage_round(3.39e38, FA_BF16), ldexp(255, 120), 0);
  assert_near("above it", storage_round(-3.4e38, FA_BF16), -INFINITY, 0);
  assert_int_equal(half_bits(-INFINITY, FA_F16), 0xfc00);
  assert_int_equal(half_bits(INFINITY, FA_BF16), 0x7f80);
  assert_true(isnan(storage_read(&(uint16_t){0x7e01}, FA_F16)));
}

static void known_values_have_known_bits(void **state) {
  (void)state;
  assert_int_equal(half_bits(1, FA_F16), 0x3c00);
  assert_int_equal(half_bits(-2.5, FA_F16), 0xc100);
  assert_int_equal(half_bits(0x1p-24, FA_F16), 0x0001);
  assert_int_equal(half_bits(-0.0, FA_F16), 0x8000);
  assert_int_equal(half_bits(1, FA_BF16), 0x3f80);
  assert_int_equal(half_bits(3.14159265, FA_BF16), 0x4049);
}

static void f32_rounds_as_the_compiler_does(void **state) {
  (void)state;
  for (int64_t i = 0; i < 10000; ++i) {
    double value = random_normal(5, 0, (int64_t[4]){i, 0, 0, 0}) * ldexp(1, (int)(i % 300) - 150);
    float stored;
    storage_write(&stored, value, FA_F32);
    assert_near("f32", stored, (float)value, 0);
    assert_near("read back", storage_read(&stored, FA_F32), (float)value, 0);
  }
}

/* Mean 0, variance 1, kurtosis 3 within five standard deviations of 100000 draws. */
static void draws_are_normal(void **state) {
  const int64_t count = 100000;
  double moment[5] = {0};
  (void)state;
  for (int64_t i = 0; i < count; ++i) {
    double x = random_normal(1, TRIAL_K, (int64_t[4]){i % 10, i / 100, i / 10 % 10, 7});
    for (int power = 1; power <= 4; ++power) moment[power] += pow(x, power) / (double)count;
  }
  assert_near("mean", moment[1], 0, 0.016);
  assert_near("variance", moment[2], 1, 0.023);
  assert_near("third moment", moment[3], 0, 0.062);
  assert_near("fourth moment", moment[4], 3, 0.16);
}

static void draws_depend_on_seed_tensor_and_every_index(void **state) {
  const int64_t at[4] = {1, 2, 3, 4};
  double base = random_normal(1, TRIAL_Q, at);
  (void)state;
  assert_near("again", random_normal(1, TRIAL_Q, at), base, 0);
  assert_true(random_normal(2, TRIAL_Q, at) != base);
  assert_true(random_normal(1, TRIAL_K, at) != base);
  for (int axis = 0; axis < 4; ++axis) {
    int64_t other[4] = {1, 2, 3, 4};
    ++other[axis];
    assert_true(random_normal(1, TRIAL_Q, other) != base);
  }
  assert_true(random_normal(1, TRIAL_Q, (int64_t[4]){2, 1, 3, 4}) != base);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_finite_half_survives_a_round_trip),
      cmocka_unit_test(neighbours_meet_half_way_at_the_even_one),
      cmocka_unit_test(too_large_becomes_infinite),
      cmocka_unit_test(known_values_have_known_bits),
      cmocka_unit_test(f32_rounds_as_the_compiler_does),
      cmocka_unit_test(draws_are_normal),
      cmocka_unit_test(draws_depend_on_seed_tensor_and_every_index),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
