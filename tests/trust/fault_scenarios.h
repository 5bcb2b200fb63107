/* fault_scenarios.h: what is done while calls fail. */
#ifndef FAGEN_TESTS_TRUST_FAULT_SCENARIOS_H
#define FAGEN_TESTS_TRUST_FAULT_SCENARIOS_H

#include "support/expect.h"
#include "trust/fault_points.h"

typedef struct fault_scenario {
  const char *name;
  void (*prepare)(const char *folder); /* before faults; the folder is empty and nobody else's */
  fa_status (*run)(void);              /* under faults, and once more without */
  const char *(*inspect)(fa_status of_run); /* what is wrong after a run; NULL: nothing */
  void (*release)(void);                    /* what a run made, whether or not it succeeded */
  void (*finish)(void);                     /* what prepare made */
} fault_scenario;

enum { FAULT_SCENARIOS = 12 };
extern const fault_scenario fault_scenarios[FAULT_SCENARIOS];

#endif
