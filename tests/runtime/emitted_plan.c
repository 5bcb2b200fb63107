/* emitted_plan.c: see emitted_plan.h. */
#include "emitted_plan.h"

#include <stdio.h>

#include "support/expect.h"

void emitted_plan_compile(fa_kernel *out, const fa_spec *canonical, const render_result *text) {
  const jit_unit unit = {"launch.c", &text->launch};
  fa_plan smallest;
  *out = (fa_kernel){.spec = *canonical};
  snprintf(out->name, sizeof out->name, "%s", text->name);
  expect_ok(kernel_compile_plan(out, &unit, 1));
  jit_seal(out->code);
  expect_ok(kernel_plan_smallest(out, &smallest));
}

fa_problem emitted_plan_problem(const fa_spec *canonical, long long batch, long long heads_kv,
                                long long seqlen) {
  static const fa_plan_param params[PARAMS_MAX] = {{.value = 1}};
  const long long heads_q = heads_kv * canonical->group;
  const fa_plan_tensor any = {(void *)4096, seqlen * heads_q * 256, heads_q * 256, 256};
  return (fa_problem){.batch = batch,
                      .heads_q = heads_q,
                      .heads_kv = heads_kv,
                      .seqlen_q = seqlen,
                      .seqlen_k = seqlen,
                      .softmax_scale = 1,
                      .processors = 132,
                      .l2_bytes = 50 << 20,
                      .q = any,
                      .k = any,
                      .v = any,
                      .o = any,
                      .dout = any,
                      .dq = any,
                      .dk = any,
                      .dv = any,
                      .lse = (float *)4096,
                      .params = params,
                      .workspace = (char *)4096};
}
