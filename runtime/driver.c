/* driver.c: finding the CUDA driver, and its errors in words. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "error.h"
#include "fork.h"

/* Launches with attributes, and the first driver that NVRTC 12's binaries run on. */
enum { OLDEST_VERSION = 12000 };

static const struct {
  const char *symbol;
  size_t offset;
} functions[] = {
#define DRIVER_SYMBOL(member, symbol, parameters) {symbol, offsetof(driver, member)},
    DRIVER_FUNCTIONS(DRIVER_SYMBOL)};

static fa_status find_functions(driver *to, void *library) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    void *found = dlsym(library, functions[i].symbol);
    if (!found)
      return fail(FA_NO_DRIVER,
                  "libcuda.so.1 has no %s: this needs the driver of CUDA %d or later, R525",
                  functions[i].symbol, OLDEST_VERSION / 1000);
    memcpy((char *)to + functions[i].offset, &found, sizeof found);
  }
  return FA_OK;
}

static fa_status initialise(driver *to) {
  CUresult code = to->Init(0);
  /* The stub has the driver's name and nothing behind it, error texts included. */
  if (code == CUDA_ERROR_STUB_LIBRARY)
    return fail(FA_NO_DRIVER, "libcuda.so.1 is the CUDA toolkit's stub, not a driver");
  if (driver_check(to, code, "cuInit")) {
    fail_in(FA_NO_DRIVER, "the CUDA driver is there but cannot be used");
    return FA_NO_DRIVER;
  }
  to->DriverGetVersion(&to->version);
  if (to->version >= OLDEST_VERSION) return FA_OK;
  return fail(FA_NO_DRIVER, "the driver serves CUDA %d.%d; %d.%d or later is needed",
              to->version / 1000, to->version % 1000 / 10, OLDEST_VERSION / 1000,
              OLDEST_VERSION % 1000 / 10);
}

static fa_status open_library(driver *to) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(FA_NO_DRIVER, "no CUDA driver on this machine: %s", dlerror());
  fa_status status = find_functions(to, library);
  if (!status) status = initialise(to);
  if (status) dlclose(library);
  return status;
}

fa_status driver_open(const driver **out) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static driver opened;
  static int is_open;
  fa_status status = FA_OK;
  fork_frees(&lock);
  pthread_mutex_lock(&lock);
  if (!is_open) {
    opened.fork_depth = fork_depth();
    is_open = 1; /* also for a child that is forked while this thread is still in here */
    status = open_library(&opened);
    is_open = !status;
  }
  if (!status) status = driver_check_fork(&opened);
  pthread_mutex_unlock(&lock);
  *out = status ? NULL : &opened;
  return status;
}

fa_status driver_check(const driver *cu, CUresult code, const char *what) {
  const char *name = NULL, *text = NULL;
  if (!code) return FA_OK;
  cu->GetErrorName(code, &name);
  cu->GetErrorString(code, &text);
  return fail(code == CUDA_ERROR_OUT_OF_MEMORY ? FA_NO_MEMORY : FA_DRIVER, "%s: %s (%s, error %d)",
              what, text ? text : "the driver has no text for this", name ? name : "unnamed", code);
}

fa_status driver_check_fork(const driver *cu) {
  if (cu->fork_depth == fork_depth()) return FA_OK;
  return fail(FA_UNSUPPORTED,
              "CUDA was opened before fork() and cannot be used in the child; open it after the "
              "fork, or start the child with exec");
}
