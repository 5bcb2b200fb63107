/* emitted_plan.h: the plan that an emitted launch makes, without a device. */
#ifndef FAGEN_TESTS_RUNTIME_EMITTED_PLAN_H
#define FAGEN_TESTS_RUNTIME_EMITTED_PLAN_H

#include "gen/render.h"
#include "runtime/kernel.h"

/* Compiles the launch of a rendered spec: out->plan may be called, and does not plan too much. Free
   out->code with jit_free. */
void emitted_plan_compile(fa_kernel *out, const fa_spec *canonical, const render_result *text);

/* A dense problem on an H200, as many queries as keys. Its addresses are none: plans only pass them
   on. */
fa_problem emitted_plan_problem(const fa_spec *canonical, long long batch, long long heads_kv,
                                long long seqlen);

#endif
