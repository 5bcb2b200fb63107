/* header_c99.c: the public headers as strict C99, twice and in either order; every macro used. */
#include <fagen_plan.h>
#include <fagen.h>
#include <fagen.h>
#include <fagen_plan.h>

int use_headers(fa_context *context,
                fa_status (*launch)(const fa_kernel *, const fa_args *, struct CUstream_st *));

int use_headers(fa_context *context,
                fa_status (*launch)(const fa_kernel *, const fa_args *, struct CUstream_st *)) {
  float data[64];
  fa_options options = FA_OPTIONS_INIT;
  fa_context_info context_info = FA_CONTEXT_INFO_INIT;
  fa_spec spec = FA_SPEC_INIT;
  fa_args args = FA_ARGS_INIT;
  fa_kernel_info kernel_info = FA_KERNEL_INFO_INIT;
  fa_param param = {"softcap.cap", 0, 0, 30.0, NULL, 0, NULL};
  fa_plan_function plan = NULL;
  options.backend = FA_CPU;
  spec.pass = FA_FWD;
  args.q = fa_bshd(data, 2, 2, 16);
  args.k = fa_bhsd(data, 2, 2, 16);
  args.params = &param;
  return launch(NULL, &args, NULL) == FA_OK && fa_forward(context, &args, NULL) == FA_OK &&
         options.size && context_info.size && spec.size && kernel_info.size && !plan &&
         FA_VERSION == FA_VERSION_MAJOR * 10000 + FA_VERSION_MINOR * 100 + FA_VERSION_PATCH;
}
