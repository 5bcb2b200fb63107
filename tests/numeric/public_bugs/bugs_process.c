/* bugs_process.c: threads that ask at once, and a forked child: what of the reports on just-in-time
   compilers holds without a GPU. tests/public_bugs.md says which row is which report. */
#define _DEFAULT_SOURCE /* fork, alarm */
#include "../dense.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t seed = 31;

/* ---- Threads ----------------------------------------------------------------------------- */

enum { THREADS = 32 };

typedef struct request {
  pthread_t thread;
  fa_context *context;
  fa_spec spec;
  const fa_kernel *kernel;
  fa_status status;
} request;

static void *ask(void *with) {
  request *r = with;
  r->status = fa_get_kernel(&r->kernel, r->context, &r->spec);
  return NULL;
}

/* Thread i asks for the kernel of head dimension 8 * (1 + i % kernels), all at the same time. */
static void ask_at_once(int kernels) {
  static request requests[THREADS];
  fa_context *context = support_new_context(2);
  for (int i = 0; i < THREADS; ++i) {
    requests[i] = (request){.context = context, .spec = FA_SPEC_INIT};
    requests[i].spec.pass = FA_FWD;
    requests[i].spec.dtype = on_gpu() ? FA_F16 : FA_F32;
    requests[i].spec.target = target_of_tests();
    requests[i].spec.dim_qk = 8 * (1 + i % kernels);
    assert_int_equal(pthread_create(&requests[i].thread, NULL, ask, &requests[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) assert_int_equal(pthread_join(requests[i].thread, NULL), 0);
  for (int i = 0; i < THREADS; ++i) {
    assert_int_equal(requests[i].status, FA_OK);
    assert_ptr_equal(requests[i].kernel, requests[i % kernels].kernel);
    for (int other = 0; other < i % kernels; ++other)
      assert_ptr_not_equal(requests[i].kernel, requests[other].kernel);
  }
  fa_context_destroy(context);
}

static void b87_threads_that_ask_at_once_share_one_kernel(void **state) {
  (void)state;
  ask_at_once(1);
}

static void b87_threads_that_ask_at_once_for_kernels_of_their_own(void **state) {
  (void)state;
  ask_at_once(THREADS);
}

/* ---- Fork -------------------------------------------------------------------------------- */

/* What the child finds; no assertion of the test program may run in it. 0 = as documented. */
static int child(dense *p) {
  fa_context *own = NULL;
  fa_options options = FA_OPTIONS_INIT;
  alarm(60);
  if (fa_forward(support_context(), &p->args, NULL) != FA_UNSUPPORTED) return 1;
  if (!strstr(fa_error_message(), "fork")) return 2;
  options.backend = FA_CPU;
  if (fa_check(&p->spec, NULL, 0) != FA_OK) return 3;
  if (fa_context_create(&own, &options) != FA_OK) return 4;
  if (!on_gpu() && fa_forward(own, &p->args, NULL) != FA_OK) return 5;
  fa_context_destroy(own);
  return 0;
}

static void b86_a_forked_child_is_told_to_make_its_own_context(void **state) {
  int status;
  dense p;
  (void)state;
  dense_create(&p, "fwd cpu f32 d64", 2, 4, 200, 200);
  dense_fill_inputs(&p, dense_normal, &seed);
  dense_forward(support_context(), &p);
  pid_t process = fork();
  if (process == 0) _exit(child(&p));
  assert_true(process > 0);
  assert_int_equal(waitpid(process, &status, 0), process);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  dense_forward(support_context(), &p);
  dense_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(b86_a_forked_child_is_told_to_make_its_own_context),
      cmocka_unit_test(b87_threads_that_ask_at_once_share_one_kernel),
      cmocka_unit_test(b87_threads_that_ask_at_once_for_kernels_of_their_own),
  };
  return cmocka_run_group_tests(tests, support_begin, support_end);
}
