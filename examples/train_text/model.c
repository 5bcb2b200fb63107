/* model.c: the transformer. A stream of rows, one for each byte of the context, to which every
   layer adds what its attention and its MLP make of the normalised stream. */
#include "train_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer_state {
  const parameter *norm1, *qkv, *out, *norm2, *gate_up, *down;
  /* What forward leaves for backward; m = batch * context rows each. */
  float *stream;             /* before the layer */
  float *inverse1, *normed1; /* into attention */
  float *attended;
  float *middle;             /* the stream between attention and MLP */
  float *inverse2, *normed2; /* into the MLP */
  float *gate_up_out, *activated;
} layer_state;

struct model {
  model_shape shape;
  int64_t head_dim, qkv_width, hidden;
  pool *threads;
  attention *attention;
  parameter *parameters;
  int64_t num_parameters;
  const parameter *embedding, *norm, *head;
  layer_state *layers;
  float *arena;
  float *stream, *inverse, *normed, *logits, *row_losses; /* after the last layer */
  float *dstream, *dnormed, *dinner, *wide;               /* scratch */
  const uint8_t *tokens;                                  /* of the last model_loss */
  int64_t rows, length;
};

/* ---- Memory --------------------------------------------------------------------------------- */

/* Hands out stretches of one block. With no block yet it only counts. */
typedef struct arena {
  float *base;
  size_t used;
} arena;

static float *take(arena *from, int64_t count) {
  const size_t line = 16; /* floats in 64 bytes: no two tensors share a cache line */
  float *p = from->base ? from->base + from->used : NULL;
  from->used += ((size_t)count + line - 1) / line * line;
  return p;
}

/* A matrix applied as x * weights, its first weights of a size that keeps that of x. A deviation of
   0 makes a gain. */
static const parameter *add_parameter(model *m, arena *from, const char *name, int64_t layer,
                                      int64_t count, double deviation) {
  parameter *p = &m->parameters[m->num_parameters++];
  *p = (parameter){name, layer, NULL, NULL, count, (float)deviation};
  p->value = take(from, count);
  p->gradient = take(from, count);
  return p;
}

static void lay_out_layer(model *m, arena *from, int64_t index) {
  layer_state *l = &m->layers[index];
  int64_t dim = m->shape.dim, hidden = m->hidden, rows = m->shape.batch * m->shape.context;
  double keep = 1 / sqrt((double)dim);
  /* What every layer adds twice to the stream is drawn smaller: the stream then stays near 1. */
  double add = 1 / sqrt(2 * (double)m->shape.layers);
  l->norm1 = add_parameter(m, from, "norm1", index, dim, 0);
  l->qkv = add_parameter(m, from, "qkv", index, dim * m->qkv_width, keep);
  l->out = add_parameter(m, from, "out", index, dim * dim, keep * add);
  l->norm2 = add_parameter(m, from, "norm2", index, dim, 0);
  l->gate_up = add_parameter(m, from, "gate_up", index, dim * 2 * hidden, keep);
  l->down = add_parameter(m, from, "down", index, hidden * dim, add / sqrt((double)hidden));
  l->stream = take(from, rows * dim);
  l->inverse1 = take(from, rows);
  l->normed1 = take(from, rows * dim);
  l->attended = take(from, rows * dim);
  l->middle = take(from, rows * dim);
  l->inverse2 = take(from, rows);
  l->normed2 = take(from, rows * dim);
  l->gate_up_out = take(from, rows * 2 * hidden);
  l->activated = take(from, rows * hidden);
}

static void lay_out(model *m, arena *from) {
  int64_t dim = m->shape.dim, rows = m->shape.batch * m->shape.context;
  int64_t widest = m->qkv_width > 2 * m->hidden ? m->qkv_width : 2 * m->hidden;
  m->num_parameters = 0;
  m->embedding = add_parameter(m, from, "embedding", -1, VOCABULARY * dim, 1);
  for (int64_t i = 0; i < m->shape.layers; ++i) lay_out_layer(m, from, i);
  m->norm = add_parameter(m, from, "norm", -1, dim, 0);
  m->head = add_parameter(m, from, "head", -1, dim * VOCABULARY, 0.1 / sqrt((double)dim));
  m->stream = take(from, rows * dim);
  m->inverse = take(from, rows);
  m->normed = take(from, rows * dim);
  m->logits = take(from, rows * VOCABULARY);
  m->row_losses = take(from, rows);
  m->dstream = take(from, rows * dim);
  m->dnormed = take(from, rows * dim);
  m->dinner = take(from, rows * (m->hidden > dim ? m->hidden : dim));
  m->wide = take(from, rows * widest);
}

static void draw_weights(model *m, uint64_t seed) {
  random_state random = {seed};
  for (int64_t i = 0; i < m->num_parameters; ++i) {
    const parameter *p = &m->parameters[i];
    for (int64_t j = 0; j < p->count; ++j)
      p->value[j] = p->deviation > 0 ? p->deviation * (float)random_normal(&random) : 1;
  }
}

model *model_create(const model_shape *shape, pool *threads, attention *a, uint64_t seed,
                    size_t *bytes) {
  const int64_t parameters_a_layer = 6, parameters_outside = 3;
  *bytes = 0;
  model *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->shape = *shape;
  m->threads = threads;
  m->attention = a;
  m->head_dim = shape->dim / shape->heads;
  m->qkv_width = (shape->heads + 2 * shape->heads_kv) * m->head_dim;
  m->hidden = (8 * shape->dim / 3 + 31) / 32 * 32; /* three matrices of 8/3 cost what two of 4 do */
  m->layers = calloc((size_t)shape->layers, sizeof *m->layers);
  m->parameters = calloc((size_t)(parameters_a_layer * shape->layers + parameters_outside),
                         sizeof *m->parameters);
  arena memory = {NULL, 0};
  if (m->layers && m->parameters) {
    lay_out(m, &memory);
    *bytes = memory.used * sizeof(float);
    m->arena = calloc(memory.used, sizeof(float));
  }
  if (!m->arena) {
    model_destroy(m);
    return NULL;
  }
  memory = (arena){m->arena, 0};
  lay_out(m, &memory);
  draw_weights(m, seed);
  return m;
}

void model_destroy(model *m) {
  if (!m) return;
  free(m->arena);
  free(m->parameters);
  free(m->layers);
  free(m);
}

const parameter *model_parameters(const model *m, int64_t *count) {
  *count = m->num_parameters;
  return m->parameters;
}

/* ---- Linear layers -------------------------------------------------------------------------- */

/* y (+)= x * weights, from `in` columns to `out`. */
static void linear(const model *m, float *y, const float *x, const parameter *weights, int64_t in,
                   int64_t out, bool add) {
  matrix a = {x, in, 1}, b = {weights->value, out, 1};
  matmul(m->threads, m->rows, out, in, a, b, y, add);
}

/* dx = dy * weights^T and dweights = x^T * dy. */
static void linear_backward(const model *m, float *dx, const float *dy, const float *x,
                            const parameter *weights, int64_t in, int64_t out) {
  matrix gradient = {dy, out, 1};
  matrix weights_transposed = {weights->value, 1, out}, x_transposed = {x, 1, in};
  matmul(m->threads, m->rows, in, out, gradient, weights_transposed, dx, false);
  matmul(m->threads, in, out, m->rows, x_transposed, gradient, weights->gradient, false);
}

/* ---- Forward -------------------------------------------------------------------------------- */

/* Queries and keys turn, values do not. */
static void rotate_queries_and_keys(const model *m, float *qkv, float direction) {
  rotate(m->threads, qkv, m->rows, m->qkv_width, m->length, m->shape.heads + m->shape.heads_kv,
         m->head_dim, direction);
}

static void copy_stream(const model *m, float *to, const float *from) {
  memcpy(to, from, (size_t)(m->rows * m->shape.dim) * sizeof *to);
}

static fa_status layer_forward(model *m, int64_t index, float *stream_out) {
  const layer_state *l = &m->layers[index];
  int64_t dim = m->shape.dim, hidden = m->hidden;
  rms_norm(m->threads, l->normed1, l->inverse1, l->stream, l->norm1->value, m->rows, dim);
  linear(m, m->wide, l->normed1, l->qkv, dim, m->qkv_width, false);
  rotate_queries_and_keys(m, m->wide, 1);
  fa_status status = attention_forward(m->attention, m->threads, index, m->rows / m->length,
                                       m->length, m->wide, l->attended);
  if (status != FA_OK) return status;
  copy_stream(m, l->middle, l->stream);
  linear(m, l->middle, l->attended, l->out, dim, dim, true);

  rms_norm(m->threads, l->normed2, l->inverse2, l->middle, l->norm2->value, m->rows, dim);
  linear(m, l->gate_up_out, l->normed2, l->gate_up, dim, 2 * hidden, false);
  swiglu(m->threads, l->activated, l->gate_up_out, m->rows, hidden);
  copy_stream(m, stream_out, l->middle);
  linear(m, stream_out, l->activated, l->down, hidden, dim, true);
  return FA_OK;
}

fa_status model_forward(model *m, const uint8_t *tokens, int64_t batch, int64_t length,
                        const float **logits) {
  int64_t dim = m->shape.dim, layers = m->shape.layers;
  m->tokens = tokens;
  m->rows = batch * length;
  m->length = length;
  embed(m->threads, m->layers[0].stream, m->embedding->value, tokens, m->rows, dim);
  for (int64_t i = 0; i < layers; ++i) {
    fa_status status = layer_forward(m, i, i + 1 < layers ? m->layers[i + 1].stream : m->stream);
    if (status != FA_OK) return status;
  }
  rms_norm(m->threads, m->normed, m->inverse, m->stream, m->norm->value, m->rows, dim);
  linear(m, m->logits, m->normed, m->head, dim, VOCABULARY, false);
  *logits = m->logits;
  return FA_OK;
}

fa_status model_loss(model *m, const uint8_t *tokens, const uint8_t *next, int64_t batch,
                     int64_t length, double *loss) {
  const float *logits;
  fa_status status = model_forward(m, tokens, batch, length, &logits);
  if (status == FA_OK) *loss = cross_entropy(m->threads, m->logits, m->row_losses, next, m->rows);
  return status;
}

/* ---- Backward ------------------------------------------------------------------------------- */

/* dstream is the gradient into the stream after the layer, and becomes that before it. */
static fa_status layer_backward(model *m, int64_t index) {
  const layer_state *l = &m->layers[index];
  int64_t dim = m->shape.dim, hidden = m->hidden;
  linear_backward(m, m->dinner, m->dstream, l->activated, l->down, hidden, dim);
  swiglu_backward(m->threads, m->wide, m->dinner, l->gate_up_out, m->rows, hidden);
  linear_backward(m, m->dnormed, m->wide, l->normed2, l->gate_up, dim, 2 * hidden);
  rms_norm_backward(m->threads, m->dstream, l->norm2->gradient, m->dnormed, l->middle, l->inverse2,
                    l->norm2->value, m->rows, dim, true);

  linear_backward(m, m->dinner, m->dstream, l->attended, l->out, dim, dim);
  fa_status status = attention_backward(m->attention, m->threads, index, m->dinner, m->wide);
  if (status != FA_OK) return status;
  rotate_queries_and_keys(m, m->wide, -1);
  linear_backward(m, m->dnormed, m->wide, l->normed1, l->qkv, dim, m->qkv_width);
  rms_norm_backward(m->threads, m->dstream, l->norm1->gradient, m->dnormed, l->stream, l->inverse1,
                    l->norm1->value, m->rows, dim, true);
  return FA_OK;
}

fa_status model_backward(model *m) {
  int64_t dim = m->shape.dim;
  linear_backward(m, m->dnormed, m->logits, m->normed, m->head, dim, VOCABULARY);
  rms_norm_backward(m->threads, m->dstream, m->norm->gradient, m->dnormed, m->stream, m->inverse,
                    m->norm->value, m->rows, dim, false);
  for (int64_t i = m->shape.layers; i-- > 0;) {
    fa_status status = layer_backward(m, i);
    if (status != FA_OK) return status;
  }
  embed_backward(m->threads, m->embedding->gradient, m->dstream, m->tokens, m->rows, dim);
  return FA_OK;
}
