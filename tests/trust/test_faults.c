/* test_faults.c: every call that can fail is made to fail: memory, files, pages, threads, libraries,
   NVRTC, the driver. Each time: no crash, no hang, no leak, no half-written file, a status with a
   message if the call did not succeed all the same, and success when it is made again.
   A fault is one meeting of one calling place (fault_points.h). Places that are met many times, such
   as Lua's allocator, fail at the first FAGEN_FAULTS_DENSE meetings (2), then at growing distances,
   then at the last; "all" in the place of the number is every one. Every fault has a process of its
   own, forked from one that has opened nothing yet. */
#include "gen/error.h"

#include "trust/fault_scenarios.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/overlay.h"
#include "trust/report.h"

enum { FAULT_SECONDS = 60, NOT_MET = 3 };

/* Of the address sanitizer; absent elsewhere. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

static fault_trace *trace; /* shared with the processes that are forked */
static int complaints;     /* a stream that stays open where those of the program are closed */

/* ---- In the process of one fault -------------------------------------------------------------- */

static void complain(const char *what, const char *detail) {
  dprintf(complaints, "  %s: %s\n", what, detail);
  _exit(1);
}

static void check_status(fa_status status) {
  if (!strcmp(fa_status_name(status), "unknown status")) complain("status", "unknown");
  if (status && !*fa_error_message()) complain(fa_status_name(status), "no message");
}

static void run_process(const fault_scenario *scenario, const char *folder,
                        const fault_plan *plan) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  for (size_t i = 0; i < COUNT_OF(signals); ++i) signal(signals[i], SIG_DFL); /* not cmocka's */
  alarm(FAULT_SECONDS);
  if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) abort();
  scenario->prepare(folder);
  (fail)(FA_OK, "%s", ""); /* the function, not cmocka's macro: no message yet */
  fault_begin(trace, plan);
  fa_status status = scenario->run();
  long failures = fault_end();
  check_status(status);
  if (status && !failures) complain("without a fault", fa_error_message());
  const char *wrong = scenario->inspect(status);
  if (wrong) complain("afterwards", wrong);
  scenario->release();
  if (scenario->run()) complain("when called again", fa_error_message());
  if ((wrong = scenario->inspect(FA_OK))) complain("when called again", wrong);
  scenario->release();
  scenario->finish();
  if (__lsan_do_recoverable_leak_check) {
    dup2(complaints, 2);
    if (__lsan_do_recoverable_leak_check()) complain("memory", "leaked");
  }
  _exit(plan->site.hits && !failures ? NOT_MET : 0);
}

/* ---- The walk ----------------------------------------------------------------------------------- */

/* 0: survived, 1: not. NOT_MET: the place was met less often than before, as Lua's allocator is,
   whose tables lie differently in every state. */
static int run_fault(const fault_scenario *scenario, const fault_plan *plan) {
  overlay folder;
  int end = 0;
  overlay_create(&folder);
  pid_t pid = fork();
  if (!pid) run_process(scenario, folder.path, plan);
  waitpid(pid, &end, 0);
  overlay_remove(&folder);
  if (WIFEXITED(end) && (!WEXITSTATUS(end) || WEXITSTATUS(end) == NOT_MET)) return WEXITSTATUS(end);
  const fault_site *site = &plan->site;
  print_error("%s: %s at %p, meeting %ld%s: %s %d\n", scenario->name, site->name, site->address,
              site->hits, plan->lasting ? " and everything after" : "",
              WIFSIGNALED(end) ? "signal" : "exit code",
              WIFSIGNALED(end) ? WTERMSIG(end) : WEXITSTATUS(end));
  return 1;
}

static long dense_hits(void) {
  const char *text = getenv("FAGEN_FAULTS_DENSE");
  return !text ? 2 : !strcmp(text, "all") ? 1L << 40 : atol(text);
}

/* The meeting to fail after this one. */
static long next_hit(long hit, long last, long dense) {
  long next = hit < dense ? hit + 1 : hit + hit;
  return hit < last && next > last ? last : next;
}

/* What the command line picks out of a scenario; NULL and 0: everything. */
static const char *only_function;
static long only_hit;

static int is_wanted(const fault_site *site, long hit) {
  return (!only_function || !strcmp(site->name, only_function)) && (!only_hit || hit == only_hit);
}

static void walk(const fault_scenario *scenario) {
  static fault_site sites[FAULT_SITES];
  fault_plan plan = {.lasting = 0};
  long faults = 0, failed = 0;
  memset(trace, 0, sizeof *trace);
  assert_int_equal(run_fault(scenario, &plan), 0);
  const int count = trace->num_sites;
  memcpy(sites, trace->sites, sizeof sites);
  assert_in_range(count, 1, FAULT_SITES - 1);
  for (int i = 0; i < count; ++i)
    for (long hit = 1; hit <= sites[i].hits; hit = next_hit(hit, sites[i].hits, dense_hits()))
      for (int lasting = 0; lasting < 2 && is_wanted(&sites[i], hit); ++lasting) {
        memset(trace, 0, sizeof *trace);
        plan = (fault_plan){.site = sites[i], .lasting = lasting};
        plan.site.hits = hit;
        int outcome = run_fault(scenario, &plan);
        faults += outcome != NOT_MET;
        failed += outcome == 1;
      }
  printf("%s: %d places, %ld faults, %ld survived\n", scenario->name, count, faults,
         faults - failed);
  report_line("faults %ld %ld", faults, faults - failed);
  assert_int_equal(failed, 0);
}

static void survives(void **state) {
  walk(*state);
}

/* test_faults [SCENARIO [FUNCTION [MEETING]]] */
int main(int argc, char **argv) {
  struct CMUnitTest tests[FAULT_SCENARIOS];
  size_t count = 0;
  for (size_t i = 0; i < FAULT_SCENARIOS; ++i) {
    const fault_scenario *scenario = &fault_scenarios[i];
    if (argc > 1 && strcmp(argv[1], scenario->name)) continue;
    tests[count++] = (struct CMUnitTest){
        .name = scenario->name, .test_func = survives, .initial_state = (void *)scenario};
  }
  only_function = argc > 2 ? argv[2] : NULL;
  only_hit = argc > 3 ? atol(argv[3]) : 0;
  complaints = dup(2);
  trace = mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (complaints < 0 || trace == MAP_FAILED || !count) return 1;
  return _cmocka_run_group_tests("faults", tests, count, NULL, NULL);
}
