/* fault_points.h: calls that fail when they are told to.
   The test program is linked with --wrap for each function in FAULT_WRAPPED (tests/CMakeLists.txt has
   the option), so every call of one of them from libfagen, libtcc or Lua is a point; the libraries
   that stand in for NVRTC and for the driver make each of their functions one. The product is the
   same object code as ever: nothing of this is in it.
   A site is a place in the code that calls; a run meets a site any number of times. A plan names one
   meeting of one site. */
#ifndef FAGEN_TESTS_TRUST_FAULT_POINTS_H
#define FAGEN_TESTS_TRUST_FAULT_POINTS_H

enum { FAULT_SITES = 512, FAULT_NAME = 40 };

typedef struct fault_site {
  const void *address;   /* where the call returns to; NULL for functions of NVRTC and the driver */
  char name[FAULT_NAME]; /* of the function called */
  long hits;
} fault_site;

/* What one run met. */
typedef struct fault_trace {
  fault_site sites[FAULT_SITES];
  int num_sites;
} fault_trace;

typedef struct fault_plan {
  fault_site site; /* its `hits` is the meeting that fails, from 1; 0: nothing fails */
  int lasting;     /* that call, and every point after it */
} fault_plan;

/* Between these two, points are counted into *trace and fail by plan. One walk at a time; the
   threads of the code under test are all counted. */
void fault_begin(fault_trace *trace, const fault_plan *plan);
/* Gives the calls that failed. */
long fault_end(void);

#endif
