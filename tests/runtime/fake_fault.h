/* fake_fault.h: in a program that defines fault_point, the functions of the stand-ins for NVRTC and
   the driver fail when it says so (trust/fault_points.h). */
#ifndef FAGEN_TESTS_RUNTIME_FAKE_FAULT_H
#define FAGEN_TESTS_RUNTIME_FAKE_FAULT_H

__attribute__((weak)) int fault_point(const char *name);

/* The code that the function of that name gives: 0, or `code` when it is to fail. What releases
   something does so all the same, as NVIDIA's do: their code may be of an earlier, other call. */
static inline int fault_code(const char *name, int code) {
  return fault_point && fault_point(name) ? code : 0;
}

#endif
