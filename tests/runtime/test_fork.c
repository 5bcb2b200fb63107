/* test_fork.c: a child that is forked while a thread of its parent opens the driver, and so holds
   the process's lock for that. Each case has a process of its own, in which nothing is open yet. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/child_build.h"
#include "runtime/fake_cuda.h"
#include "support/expect.h"

enum { OPENING_MS = 600, FORKED_AFTER_MS = 150 };

static fa_status open_cuda(void) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *context;
  options.backend = FA_CUDA;
  options.nvrtc = FAKE_NVRTC;
  options.cache_dir = "";
  fa_status status = fa_context_create(&context, &options);
  if (!status) fa_context_destroy(context);
  return status;
}

static void *open_in_thread(void *out) {
  *(fa_status *)out = open_cuda();
  return NULL;
}

static int run(int (*body)(void)) {
  int end = 0;
  pid_t pid = fork();
  if (!pid) {
    alarm(20); /* waiting for a lock that no thread holds any more is the fault this is for */
    _exit(body());
  }
  waitpid(pid, &end, 0);
  return WIFEXITED(end) ? WEXITSTATUS(end) : 100 + WTERMSIG(end);
}

/* In the child: 0 when all is as it should be. */
static int use_after_fork(void) {
  fa_options options = FA_OPTIONS_INIT;
  fa_context *own;
  if (open_cuda() != FA_UNSUPPORTED || !strstr(fa_error_message(), "fork")) return 1;
  options.backend = FA_CPU;
  if (fa_context_create(&own, &options)) return 2;
  fa_context_destroy(own);
  return 0;
}

static int fork_while_opening(void) {
  pthread_t thread;
  fa_status status = FA_DRIVER;
  fake.init_ms = OPENING_MS;
  pthread_create(&thread, NULL, open_in_thread, &status);
  usleep(FORKED_AFTER_MS * 1000);
  int code = run(use_after_fork);
  pthread_join(thread, NULL);
  return code ? code : status ? 3 : 0;
}

static void a_child_of_a_process_that_opens_the_driver_does_not_wait(void **state) {
  (void)state;
  assert_int_equal(run(fork_while_opening), 0);
}

/* Where the parent has opened nothing, the child may. */
static int open_plainly(void) {
  return open_cuda() != FA_OK;
}

static int open_in_child(void) {
  return run(open_plainly);
}

static void a_child_may_open_what_its_parent_did_not(void **state) {
  (void)state;
  assert_int_equal(run(open_in_child), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_of_a_process_that_opens_the_driver_does_not_wait),
      cmocka_unit_test(a_child_may_open_what_its_parent_did_not),
  };
  return cmocka_run_group_tests(tests, expect_to_end, NULL);
}
