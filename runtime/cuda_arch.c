/* cuda_arch.c: compute capabilities and specs. A binary for X.y runs on X.z with z >= y, and on no
   other X; one for 9.0a, as target sm90 is compiled, on 9.0 alone. */
#include "cuda_arch.h"

#include "error.h"
#include "spec.h"

static const int named[] = {80, 86, 89, 90, 100, 120};
enum { NAMED = sizeof named / sizeof *named, DEFAULT_ARCH = 80 };

fa_status cuda_arch_of(int *arch, int major, int minor) {
  *arch = 0;
  for (int i = 0; i < NAMED; ++i)
    if (named[i] / 10 == major && named[i] % 10 <= minor) *arch = named[i];
  if (*arch) return FA_OK;
  return fail(FA_UNSUPPORTED,
              "device: compute capability %d.%d; kernels are made for 8.x, 9.x, 10.x and 12.x",
              major, minor);
}

static fa_status check_sm80(const fa_spec *spec, int device_arch) {
  if (spec->arch / 10 == device_arch / 10 && spec->arch <= device_arch) return FA_OK;
  return fail(FA_UNSUPPORTED, "arch: cc%d; this device runs what is made for cc%d", spec->arch,
              device_arch);
}

fa_status cuda_arch_resolve(fa_spec *spec, int device_arch, int sm90_present) {
  if (spec->target == FA_TARGET_BEST) {
    if (spec->dtype == FA_F32)
      return fail(FA_INVALID, "dtype: f32 is for the cpu target; a GPU takes f16 and bf16");
    spec->target = device_arch == 90 && sm90_present ? FA_TARGET_SM90 : FA_TARGET_SM80;
    spec->arch = DEFAULT_ARCH;
  }
  switch (spec->target) {
  case FA_TARGET_SM80:
    if (spec->arch == DEFAULT_ARCH) spec->arch = device_arch;
    return check_sm80(spec, device_arch);
  case FA_TARGET_SM90:
    spec->arch = 90;
    if (device_arch == 90) return FA_OK;
    return fail(FA_UNSUPPORTED, "target: sm90 runs on cc90; this device runs what is made for cc%d",
                device_arch);
  default:
    return fail(FA_UNSUPPORTED, "target: %s does not run on a CUDA context",
                spec_target_word(spec->target));
  }
}
