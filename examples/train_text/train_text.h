/* train_text.h: the parts of train_text, a small transformer that learns to predict the next byte
   of a text. Everything is plain C but attention, which attention.c takes from fagen. */
#ifndef TRAIN_TEXT_H
#define TRAIN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fagen.h"

enum { VOCABULARY = 256 }; /* a token is a byte */

/* What the program returns to the shell. */
enum { EXIT_RIGHT = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_CANNOT_RUN = 3 };

/* ---- options.c: the command line ------------------------------------------------------------ */

typedef struct train_options {
  const char **files; /* points into argv, which is reordered */
  int64_t num_files;
  int64_t steps, seconds; /* 0 = no limit */
  int64_t target;         /* fa_target */
  int64_t dtype;          /* fa_dtype; 0 = f32 on the processor, bf16 on a GPU */
  int64_t layers, heads, heads_kv, dim, context, batch;
  int64_t seed, threads;
  double rate;
  const char *losses; /* NULL = none */
  int64_t sample;
} train_options;

/* False when there is nothing to run: *exit_code is then what the program should return, and help
   or a sentence about the mistake has been printed. */
bool options_parse(train_options *out, int argc, char **argv, int *exit_code);

/* The word of a fa_target on the command line. */
const char *target_name(int64_t target);

/* ---- text.c: the bytes to learn from -------------------------------------------------------- */

typedef struct text {
  uint8_t *bytes;
  size_t count;
} text;

/* Reads the files one after the other, or prints what is wrong with one of them. */
bool text_read(text *out, const char **files, int64_t num_files);

/* A small random generator (splitmix64): the same numbers on every machine. */
typedef struct random_state {
  uint64_t state;
} random_state;
uint64_t random_bits(random_state *random);
double random_uniform(random_state *random); /* in [0, 1) */
double random_normal(random_state *random);

/* Draws `batch` stretches of the text: tokens and, one byte further on, the bytes that follow. */
void text_draw(const text *from, random_state *random, int64_t batch, int64_t length,
               uint8_t *tokens, uint8_t *next);

/* ---- pool.c: threads ------------------------------------------------------------------------ */

typedef struct pool pool;
typedef void pool_task(void *work, int64_t index);

pool *pool_create(int threads); /* NULL when the threads cannot be had */
void pool_destroy(pool *threads);

/* Calls task(work, 0 .. count - 1) on all threads and waits. Which thread takes which index is
   chance, so a task must compute the same whoever runs it: every sum belongs to one index. */
void pool_run(pool *threads, pool_task *task, void *work, int64_t count);

/* ---- matmul.c ------------------------------------------------------------------------------- */

/* Element (i, j) lies at data[i * row_stride + j * column_stride]: swapped strides transpose. */
typedef struct matrix {
  const float *data;
  int64_t row_stride, column_stride;
} matrix;

/* c (rows x columns, dense) = a (rows x depth) times b (depth x columns), added to c when `add`.
   The order in which an element is summed depends on depth alone, never on the threads. */
void matmul(pool *threads, int64_t rows, int64_t columns, int64_t depth, matrix a, matrix b,
            float *c, bool add);

/* ---- layers.c: what lies between the matrix products ---------------------------------------- */

/* y = x * inverse * gain with inverse = 1 / rms(x), by row; inverse is kept for backward. */
void rms_norm(pool *threads, float *y, float *inverse, const float *x, const float *gain,
              int64_t rows, int64_t width);

/* Writes dgain; writes dx, or adds to it when `add`. */
void rms_norm_backward(pool *threads, float *dx, float *dgain, const float *dy, const float *x,
                       const float *inverse, const float *gain, int64_t rows, int64_t width,
                       bool add);

/* Rotary positions, in place: pair (c, c + half) of every head turns by position * angle(c).
   `direction` is 1 forward and -1 for gradients. Row r of x has position r % length. */
void rotate(pool *threads, float *x, int64_t rows, int64_t row_stride, int64_t length,
            int64_t heads, int64_t head_dim, float direction);

/* y = silu(gate) * up, where a row of gate_up holds `width` gates and then `width` ups. */
void swiglu(pool *threads, float *y, const float *gate_up, int64_t rows, int64_t width);
void swiglu_backward(pool *threads, float *dgate_up, const float *dy, const float *gate_up,
                     int64_t rows, int64_t width);

void embed(pool *threads, float *x, const float *table, const uint8_t *tokens, int64_t rows,
           int64_t width);
void embed_backward(pool *threads, float *dtable, const float *dx, const uint8_t *tokens,
                    int64_t rows, int64_t width);

/* The mean over the rows of -ln softmax(logits)[next]; logits become their own gradients.
   row_losses is scratch for `rows` values. */
double cross_entropy(pool *threads, float *logits, float *row_losses, const uint8_t *next,
                     int64_t rows);

/* ---- attention.c: the only place that calls fagen ------------------------------------------- */

typedef struct attention attention;

typedef struct attention_shape {
  int32_t target, dtype; /* dtype 0 = f32 on the processor, bf16 on a GPU */
  int32_t threads;       /* 0 = the library's choice */
  int64_t layers, heads, heads_kv, head_dim;
  int64_t batch, length; /* the largest there will be */
} attention_shape;

/* Opens the device and builds both kernels. *out is yours, also after a failure: it then holds
   nothing and can only be destroyed. */
fa_status attention_create(attention **out, const attention_shape *shape);
void attention_destroy(attention *a);

/* The threads that the library uses: what the rest of the program should use too. */
int attention_threads(const attention *a);

/* One line: device, kernels, the time that building them took. */
void attention_describe(const attention *a, FILE *to);

/* A row of qkv holds the query heads, then the key heads, then the value heads. Forward keeps what
   backward of the same layer needs, with the batch and length that forward was given. */
fa_status attention_forward(attention *a, pool *threads, int64_t layer, int64_t batch,
                            int64_t length, const float *qkv, float *o);
fa_status attention_backward(attention *a, pool *threads, int64_t layer, const float *dout,
                             float *dqkv);

/* ---- model.c: the transformer --------------------------------------------------------------- */

typedef struct model_shape {
  int64_t layers, heads, heads_kv, dim;
  int64_t context, batch; /* the largest there will be */
} model_shape;

/* One tensor of weights. */
typedef struct parameter {
  const char *name;
  int64_t layer; /* -1 outside the layers */
  float *value, *gradient;
  int64_t count;
  float deviation; /* of the first weights; 0 for gains, which begin at 1 and do not decay */
} parameter;

typedef struct model model;

/* Draws the weights. NULL when memory runs out; *bytes is what was asked for. */
model *model_create(const model_shape *shape, pool *threads, attention *a, uint64_t seed,
                    size_t *bytes);
void model_destroy(model *m);

/* The weights, in a fixed order. */
const parameter *model_parameters(const model *m, int64_t *count);

/* Runs the tokens through and points *logits at batch * length rows of VOCABULARY values. */
fa_status model_forward(model *m, const uint8_t *tokens, int64_t batch, int64_t length,
                        const float **logits);

/* Forward, then the mean loss against the bytes that follow. */
fa_status model_loss(model *m, const uint8_t *tokens, const uint8_t *next, int64_t batch,
                     int64_t length, double *loss);

/* Writes the gradient of the last model_loss into every parameter. */
fa_status model_backward(model *m);

/* ---- optimizer.c: AdamW --------------------------------------------------------------------- */

typedef struct optimizer optimizer;

optimizer *optimizer_create(const parameter *parameters, int64_t count, pool *threads);
void optimizer_destroy(optimizer *o);

/* Clips the gradients to a norm of 1, then takes one step. Returns the norm before clipping. */
double optimizer_step(optimizer *o, double rate);

/* ---- progress.c: what a person sees while it trains ----------------------------------------- */

typedef struct progress {
  bool terminal;
  double start, last_print;
  double smoothed;
  int64_t step, tokens;
} progress;

double seconds_now(void);
void progress_start(progress *p);
void progress_step(progress *p, const train_options *options, double loss);
void progress_end(const progress *p, double first_loss);

#endif
