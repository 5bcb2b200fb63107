/* test_driver_values.c: the runtime's own declarations of the driver's interface are the toolkit's.
   Built where a toolkit is. */
#include "runtime/driver.h"
#include "support/expect.h"

#include "driver_values.h"

const driver_value driver_values_ours[] = {VALUES};
const int driver_values_count = sizeof driver_values_ours / sizeof *driver_values_ours;

static void every_value_is_the_toolkits(void **state) {
  (void)state;
  int wrong = 0;
  for (int i = 0; i < driver_values_count; ++i) {
    const driver_value *ours = &driver_values_ours[i], *theirs = &driver_values_toolkits[i];
    assert_string_equal(ours->name, theirs->name);
    if (ours->value == theirs->value) continue;
    print_error("%s: %lld, the toolkit has %lld\n", ours->name, ours->value, theirs->value);
    ++wrong;
  }
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_value_is_the_toolkits)};
  return cmocka_run_group_tests_name("driver values", tests, NULL, NULL);
}
