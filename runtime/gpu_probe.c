/* gpu_probe.c: looks for the driver and NVRTC without linking to either. */
#include "gpu_probe.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "error.h"

static fa_status probe_driver(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return fail(FA_NO_DRIVER, "no CUDA driver on this machine: %s", dlerror());
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int code = init ? init(0) : -1;
  /* 34 comes from the toolkit's stub, which has the driver's name and nothing behind it. */
  if (code == 34) return fail(FA_NO_DRIVER, "libcuda.so.1 is the toolkit's stub, not a driver");
  if (code) return fail(FA_NO_DRIVER, "the CUDA driver is there but cuInit gives error %d", code);
  return FA_OK;
}

static fa_status probe_nvrtc(const char *path) {
  const char *const names[] = {path, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (size_t i = path ? 0 : 1; i < (path ? 1 : sizeof names / sizeof *names); ++i) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    dlclose(library);
    return FA_OK;
  }
  return fail(FA_NO_NVRTC, "NVRTC cannot be opened: %s (set FA_NVRTC to its path)", dlerror());
}

fa_status gpu_probe(const char *nvrtc) {
  fa_status status = probe_driver();
  if (!status) status = probe_nvrtc(nvrtc && *nvrtc ? nvrtc : getenv("FA_NVRTC"));
  if (!status)
    status = fail(FA_UNSUPPORTED, "this version has no GPU kernels; use the cpu backend");
  return status;
}
