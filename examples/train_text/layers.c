/* layers.c: the small layers of the model, forward and backward. Rows are independent; a gradient
   that sums over rows is split by columns instead, so that one task sums all of its rows in order.
 */
#include "train_text.h"

#include <math.h>
#include <string.h>

enum { ROWS_A_TASK = 16, COLUMNS_A_TASK = 16 };

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t tasks(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

/* What the tasks of most layers read and write, each its part of it. */
typedef struct layer_work {
  int64_t rows, width;
  const float *x, *y, *gain, *inverse;
  float *out, *inverse_out;
  const uint8_t *tokens;
  bool add;
} layer_work;

/* ---- RMS norm ------------------------------------------------------------------------------- */

static void rms_norm_task(void *work, int64_t index) {
  const float epsilon = 1e-6f;
  const layer_work *w = work;
  int64_t end = least(w->rows, (index + 1) * ROWS_A_TASK);
  for (int64_t r = index * ROWS_A_TASK; r < end; ++r) {
    const float *x = w->x + r * w->width;
    float *y = w->out + r * w->width;
    float squares = 0;
    for (int64_t j = 0; j < w->width; ++j) squares += x[j] * x[j];
    float inverse = 1 / sqrtf(squares / (float)w->width + epsilon);
    for (int64_t j = 0; j < w->width; ++j) y[j] = x[j] * inverse * w->gain[j];
    w->inverse_out[r] = inverse;
  }
}

void rms_norm(pool *threads, float *y, float *inverse, const float *x, const float *gain,
              int64_t rows, int64_t width) {
  layer_work w = {.rows = rows, .width = width, .x = x, .gain = gain};
  w.out = y;
  w.inverse_out = inverse;
  pool_run(threads, rms_norm_task, &w, tasks(rows, ROWS_A_TASK));
}

static void rms_norm_dx_task(void *work, int64_t index) {
  const layer_work *w = work;
  int64_t end = least(w->rows, (index + 1) * ROWS_A_TASK);
  for (int64_t r = index * ROWS_A_TASK; r < end; ++r) {
    const float *x = w->x + r * w->width, *dy = w->y + r * w->width;
    float *dx = w->out + r * w->width, inverse = w->inverse[r];
    float along = 0; /* the part of the gradient along x, which the norm takes away */
    for (int64_t j = 0; j < w->width; ++j) along += dy[j] * w->gain[j] * x[j];
    along *= inverse * inverse / (float)w->width;
    for (int64_t j = 0; j < w->width; ++j) {
      float value = inverse * (dy[j] * w->gain[j] - x[j] * along);
      dx[j] = w->add ? dx[j] + value : value;
    }
  }
}

static void rms_norm_dgain_task(void *work, int64_t index) {
  const layer_work *w = work;
  int64_t first = index * COLUMNS_A_TASK, count = least(w->width - first, COLUMNS_A_TASK);
  float sum[COLUMNS_A_TASK] = {0};
  for (int64_t r = 0; r < w->rows; ++r) {
    const float *x = w->x + r * w->width + first, *dy = w->y + r * w->width + first;
    for (int64_t j = 0; j < count; ++j) sum[j] += dy[j] * x[j] * w->inverse[r];
  }
  for (int64_t j = 0; j < count; ++j) w->out[first + j] = sum[j];
}

void rms_norm_backward(pool *threads, float *dx, float *dgain, const float *dy, const float *x,
                       const float *inverse, const float *gain, int64_t rows, int64_t width,
                       bool add) {
  layer_work w = {.rows = rows, .width = width, .x = x, .y = dy, .gain = gain, .inverse = inverse};
  w.add = add;
  w.out = dgain;
  pool_run(threads, rms_norm_dgain_task, &w, tasks(width, COLUMNS_A_TASK));
  w.out = dx;
  pool_run(threads, rms_norm_dx_task, &w, tasks(rows, ROWS_A_TASK));
}

/* ---- Rotary positions ----------------------------------------------------------------------- */

typedef struct rotation {
  float *x;
  int64_t rows, row_stride, length, heads, half;
  float frequency[FA_DIM_MAX / 2]; /* radians a position */
} rotation;

static void rotate_head(float *x, const float *cosine, const float *sine, int64_t half) {
  for (int64_t c = 0; c < half; ++c) {
    float a = x[c], b = x[c + half];
    x[c] = a * cosine[c] - b * sine[c];
    x[c + half] = b * cosine[c] + a * sine[c];
  }
}

static void rotate_task(void *work, int64_t index) {
  const rotation *w = work;
  int64_t end = least(w->rows, (index + 1) * ROWS_A_TASK);
  float cosine[FA_DIM_MAX / 2], sine[FA_DIM_MAX / 2];
  for (int64_t r = index * ROWS_A_TASK; r < end; ++r) {
    for (int64_t c = 0; c < w->half; ++c) {
      float angle = (float)(r % w->length) * w->frequency[c];
      cosine[c] = cosf(angle);
      sine[c] = sinf(angle);
    }
    for (int64_t h = 0; h < w->heads; ++h)
      rotate_head(w->x + r * w->row_stride + h * 2 * w->half, cosine, sine, w->half);
  }
}

void rotate(pool *threads, float *x, int64_t rows, int64_t row_stride, int64_t length,
            int64_t heads, int64_t head_dim, float direction) {
  const float slowest =
      1e-4f; /* the first pair turns by one radian a position, the last by about this */
  rotation w = {x, rows, row_stride, length, heads, head_dim / 2, {0}};
  for (int64_t c = 0; c < w.half; ++c)
    w.frequency[c] = direction * powf(slowest, (float)c / (float)w.half);
  pool_run(threads, rotate_task, &w, tasks(rows, ROWS_A_TASK));
}

/* ---- SwiGLU --------------------------------------------------------------------------------- */

static float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

static void swiglu_task(void *work, int64_t index) {
  const layer_work *w = work;
  int64_t end = least(w->rows, (index + 1) * ROWS_A_TASK);
  for (int64_t r = index * ROWS_A_TASK; r < end; ++r) {
    const float *gate = w->x + r * 2 * w->width, *up = gate + w->width;
    float *y = w->out + r * w->width;
    for (int64_t j = 0; j < w->width; ++j) y[j] = gate[j] * sigmoid(gate[j]) * up[j];
  }
}

void swiglu(pool *threads, float *y, const float *gate_up, int64_t rows, int64_t width) {
  layer_work w = {.rows = rows, .width = width, .x = gate_up, .out = y};
  pool_run(threads, swiglu_task, &w, tasks(rows, ROWS_A_TASK));
}

static void swiglu_backward_task(void *work, int64_t index) {
  const layer_work *w = work;
  int64_t end = least(w->rows, (index + 1) * ROWS_A_TASK);
  for (int64_t r = index * ROWS_A_TASK; r < end; ++r) {
    const float *gate = w->x + r * 2 * w->width, *up = gate + w->width, *dy = w->y + r * w->width;
    float *dgate = w->out + r * 2 * w->width, *dup = dgate + w->width;
    for (int64_t j = 0; j < w->width; ++j) {
      float s = sigmoid(gate[j]);
      dup[j] = dy[j] * gate[j] * s;
      dgate[j] = dy[j] * up[j] * s * (1 + gate[j] * (1 - s));
    }
  }
}

void swiglu_backward(pool *threads, float *dgate_up, const float *dy, const float *gate_up,
                     int64_t rows, int64_t width) {
  layer_work w = {.rows = rows, .width = width, .x = gate_up, .y = dy, .out = dgate_up};
  pool_run(threads, swiglu_backward_task, &w, tasks(rows, ROWS_A_TASK));
}

/* ---- Embedding ------------------------------------------------------------------------------ */

static void embed_task(void *work, int64_t index) {
  const layer_work *w = work;
  int64_t end = least(w->rows, (index + 1) * ROWS_A_TASK);
  for (int64_t r = index * ROWS_A_TASK; r < end; ++r)
    memcpy(w->out + r * w->width, w->x + w->tokens[r] * w->width,
           (size_t)w->width * sizeof *w->out);
}

void embed(pool *threads, float *x, const float *table, const uint8_t *tokens, int64_t rows,
           int64_t width) {
  layer_work w = {.rows = rows, .width = width, .x = table, .out = x, .tokens = tokens};
  pool_run(threads, embed_task, &w, tasks(rows, ROWS_A_TASK));
}

static void embed_backward_task(void *work, int64_t index) {
  const layer_work *w = work;
  int64_t first = index * COLUMNS_A_TASK, count = least(w->width - first, COLUMNS_A_TASK);
  for (int64_t t = 0; t < VOCABULARY; ++t)
    memset(w->out + t * w->width + first, 0, (size_t)count * sizeof *w->out);
  for (int64_t r = 0; r < w->rows; ++r) {
    const float *dx = w->x + r * w->width + first;
    float *row = w->out + w->tokens[r] * w->width + first;
    for (int64_t j = 0; j < count; ++j) row[j] += dx[j];
  }
}

void embed_backward(pool *threads, float *dtable, const float *dx, const uint8_t *tokens,
                    int64_t rows, int64_t width) {
  layer_work w = {.rows = rows, .width = width, .x = dx, .out = dtable, .tokens = tokens};
  pool_run(threads, embed_backward_task, &w, tasks(width, COLUMNS_A_TASK));
}

/* ---- Cross-entropy -------------------------------------------------------------------------- */

static void cross_entropy_task(void *work, int64_t index) {
  const layer_work *w = work;
  int64_t end = least(w->rows, (index + 1) * ROWS_A_TASK);
  for (int64_t r = index * ROWS_A_TASK; r < end; ++r) {
    float *logits = w->out + r * VOCABULARY;
    int next = w->tokens[r];
    float highest = logits[0], sum = 0, of_next = logits[next];
    for (int j = 1; j < VOCABULARY; ++j) highest = fmaxf(highest, logits[j]);
    for (int j = 0; j < VOCABULARY; ++j) sum += logits[j] = expf(logits[j] - highest);
    w->inverse_out[r] = logf(sum) + highest - of_next;
    float scale = 1 / (sum * (float)w->rows);
    for (int j = 0; j < VOCABULARY; ++j) logits[j] *= scale;
    logits[next] -= 1 / (float)w->rows;
  }
}

double cross_entropy(pool *threads, float *logits, float *row_losses, const uint8_t *next,
                     int64_t rows) {
  layer_work w = {.rows = rows, .out = logits, .inverse_out = row_losses, .tokens = next};
  pool_run(threads, cross_entropy_task, &w, tasks(rows, ROWS_A_TASK));
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += row_losses[r];
  return sum / (double)rows;
}
