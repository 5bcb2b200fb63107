/* device.c: see device.h. */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"

int device_open(device_functions *out) {
  static const struct {
    const char *symbol;
    size_t offset;
  } wanted[] = {
#define DEVICE_SYMBOL(member, symbol, parameters) {symbol, offsetof(device_functions, member)},
      DEVICE_FUNCTIONS(DEVICE_SYMBOL)};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; library && i < COUNT_OF(wanted); ++i) {
    void *found = dlsym(library, wanted[i].symbol);
    if (!found) {
      printf("libcuda.so.1 has no %s\n", wanted[i].symbol);
      return 0;
    }
    memcpy((char *)out + wanted[i].offset, &found, sizeof found);
  }
  return library != NULL;
}

void expect_cu_at(CUresult got, const char *call, const char *file, int line) {
  if (!got) return;
  print_error("%s: CUDA error %d\n", call, got);
  _fail(file, line);
}
