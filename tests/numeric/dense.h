/* dense.h: one problem for tests that launch many times or look at every byte: batch x seqlen x
   heads x dim without gaps, through fa_forward and fa_backward. On a GPU, tests read and write an
   image in host memory, which travels to the device before a launch and back after it. */
#ifndef FAGEN_TESTS_NUMERIC_DENSE_H
#define FAGEN_TESTS_NUMERIC_DENSE_H

#include "support.h"

#include "runtime/cli/buffer.h"

typedef struct dense {
  fa_context *context;         /* on whose device the tensors are */
  fa_spec spec;                /* canonical */
  fa_args args;                /* ready to launch; tests may change strides and pointers */
  view shapes[TRIAL_TENSORS];  /* as stored */
  void *memory[TRIAL_TENSORS]; /* of the host; zero until filled */
  void *device[TRIAL_TENSORS]; /* on cpu the same memory */
} dense;

/* Heads and words as in trial_of; dLSE is allocated, and args.dlse NULL. On support_context, or on
   another. */
void dense_create(dense *out, const char *words, int64_t batch, int64_t heads, int64_t seqlen_q,
                  int64_t seqlen_k);
void dense_create_on(dense *out, fa_context *context, const char *words, int64_t batch,
                     int64_t heads, int64_t seqlen_q, int64_t seqlen_k);
void dense_free(dense *problem);

/* A fill that draws normal numbers; `with` points to a uint64_t seed. */
double dense_normal(const void *with, trial_tensor tensor, const int64_t at[4]);

/* Fills one tensor, or Q, K, V, dO and dLSE. */
void dense_fill(dense *problem, trial_tensor tensor, trial_fill value, const void *with);
void dense_fill_inputs(dense *problem, trial_fill value, const void *with);

/* Elements of a tensor, its bytes, and one element by its place in memory. */
int64_t dense_count(const dense *problem, trial_tensor tensor);
size_t dense_bytes(const dense *problem, trial_tensor tensor);
double dense_get(const dense *problem, trial_tensor tensor, int64_t index);
void dense_set(dense *problem, trial_tensor tensor, int64_t index, double value);

/* One element by batch, row, head, column. */
double dense_at(const dense *problem, trial_tensor tensor, int64_t batch, int64_t row, int64_t head,
                int64_t column);

/* The address of an element for the library: of the device. */
void *dense_address(const dense *problem, trial_tensor tensor, int64_t index);

/* Copies all tensors to the device; the outputs, O to dV, from it. On cpu nothing to do. */
void dense_upload(dense *problem);
void dense_download(dense *problem, struct CUstream_st *stream);

/* fa_forward or fa_backward of what is on the device; any status but FA_OK fails the test. */
void dense_launch(fa_context *context, const dense *problem, int pass, struct CUstream_st *stream);

/* Forward; forward and backward; between upload and download. */
void dense_forward(fa_context *context, dense *problem);
void dense_both(fa_context *context, dense *problem);

/* Fails unless the tensor has the same bytes in both; what is not repeatable, the same sums. */
void assert_same_bytes(const dense *a, const dense *b, trial_tensor tensor);

/* Fails unless every element is within tolerance of the value. */
void assert_all_near(const dense *problem, trial_tensor tensor, double wanted, double tolerance);

#endif
