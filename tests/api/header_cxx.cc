// header_cxx.cc: the public headers as C++, and every macro used.
#include <fagen.h>
#include <fagen_plan.h>

fa_status use_headers(fa_context *context, float *data);

fa_status use_headers(fa_context *context, float *data) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context_info context_info = FA_CONTEXT_INFO_INIT;
  fa_spec spec = FA_SPEC_INIT;
  fa_args args = FA_ARGS_INIT;
  fa_kernel_info kernel_info = FA_KERNEL_INFO_INIT;
  fa_plan_function plan = nullptr;
  args.dtype = FA_F32;
  args.q = fa_bshd(data, 2, 2, 16);
  args.k = fa_bhsd(data, 2, 2, 16);
  if (plan || !options.size || !context_info.size || !spec.size || !kernel_info.size)
    return FA_INVALID;
  return fa_forward(context, &args, nullptr);
}
