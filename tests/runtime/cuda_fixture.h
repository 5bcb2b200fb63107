/* cuda_fixture.h: a context on the driver that records (fake_cuda.c), with the kernels of overlay/,
   for the tests that link it under the driver's name. */
#ifndef FAGEN_TESTS_RUNTIME_CUDA_FIXTURE_H
#define FAGEN_TESTS_RUNTIME_CUDA_FIXTURE_H

#include "child_build.h"
#include "fake_cuda.h"
#include "support/expect.h"

enum { BATCH = 2, HEADS = 3, SEQLEN = 5, DIM = 64 };
enum { ELEMENTS = BATCH * HEADS * SEQLEN * DIM, MOST_ROWS = 300 };

/* On device 0 while a test runs. */
extern fa_context *context;
extern const fa_kernel *fwd, *bwd;
extern unsigned short tensors[8][ELEMENTS]; /* q, k, v, o, dout, dq, dk, dv */
extern float lse[BATCH * HEADS * SEQLEN];
extern char workspace[4096];

/* Setup and teardown of each test. */
int open_device(void **state);
int close_device(void **state);
#define ON_DEVICE(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

/* Another context; kernels of the usual one. */
fa_context *open_context(int device, CUcontext given);
fa_context *open_context_with(int device, CUcontext given, const char *cache_dir);
const fa_kernel *get(const char *words);

/* A problem in the tensors above, and one of a single row for each batch entry, up to MOST_ROWS. */
fa_args make_args(void);
fa_args make_rows(int64_t batch);

/* Fails unless no launch was made since the test began, and no workspace is held. */
void expect_nothing_done(void);

#endif
