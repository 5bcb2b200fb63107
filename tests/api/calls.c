/* calls.c: see calls.h. */
#include "calls.h"

#include <stdio.h>

problem memory;
fa_context *context;
const fa_kernel *kernels[FA_BWD + 1];

static problem before;

int calls_begin(void **state) {
  context = problem_context(2);
  for (int pass = FA_FWD; pass <= FA_BWD; ++pass)
    kernels[pass] = problem_kernel(context, (fa_pass)pass);
  return expect_to_end(state);
}

int calls_end(void **state) {
  (void)state;
  fa_context_destroy(context);
  return 0;
}

int calls_fresh(void **state) {
  (void)state;
  problem_fill(&memory);
  before = memory;
  return 0;
}

void assert_untouched(const char *what) {
  for (size_t i = 0; i < sizeof memory; ++i)
    if (((unsigned char *)&memory)[i] != ((unsigned char *)&before)[i])
      fail_msg("%s: byte %zu of the problem was written", what, i);
}

static const char *name_of_call(int call) {
  return call == FORWARD      ? "fa_forward"
         : call == BACKWARD   ? "fa_backward"
         : call == LAUNCH_FWD ? "fa_launch fwd"
         : call == LAUNCH_PRE ? "fa_launch pre"
         : call == LAUNCH_BWD ? "fa_launch bwd"
         : call == SIZE_FWD   ? "fa_workspace_size fwd"
         : call == SIZE_PRE   ? "fa_workspace_size pre"
                              : "fa_workspace_size bwd";
}

fa_status make_call(int call, const fa_args *args) {
  size_t bytes = 12345;
  if (call == FORWARD) return fa_forward(context, args, NULL);
  if (call == BACKWARD) return fa_backward(context, args, NULL);
  int pass = call & (LAUNCH_FWD | SIZE_FWD)   ? FA_FWD
             : call & (LAUNCH_PRE | SIZE_PRE) ? FA_PRE
                                              : FA_BWD;
  if (call & LAUNCH) return fa_launch(kernels[pass], args, NULL);
  fa_status status = fa_workspace_size(&bytes, kernels[pass], args);
  if (status && bytes != 12345) fail_msg("fa_workspace_size failed and wrote %zu", bytes);
  return status;
}

fa_args good_args(void) {
  fa_args args = problem_args(&memory);
  args.workspace = memory.workspace;
  args.workspace_size = sizeof memory.workspace;
  return args;
}

void assert_all_refuse(int calls, const fa_args *args, fa_status wanted, const char *words) {
  for (int call = 1; call <= SIZE_BWD; call *= 2) {
    if (!(calls & call)) continue;
    fa_status got = make_call(call, args);
    if (got != wanted)
      fail_msg("%s: %s (%s), wanted %s with '%s'", name_of_call(call), fa_status_name(got),
               got ? fa_error_message() : "", fa_status_name(wanted), words);
    expect_words(name_of_call(call), fa_error_message(), words);
    assert_untouched(name_of_call(call));
  }
}
