/* optimizer.c: AdamW (Loshchilov and Hutter, arXiv:1711.05101) with the gradient's norm clipped. */
#include "train_text.h"

#include <math.h>
#include <stdlib.h>

enum { WEIGHTS_A_TASK = 1 << 12 };

/* A stretch of one parameter: the work of one task. */
typedef struct stretch {
  float *value, *mean,
      *square; /* mean and square: running averages of the gradient and its square */
  const float *gradient;
  int64_t count;
  bool decays;
  double squares; /* sum over the stretch */
} stretch;

struct optimizer {
  pool *threads;
  stretch *stretches;
  int64_t num_stretches, step;
  float *averages;
  float rate, clip; /* of the step under way */
};

static int64_t stretches_of(const parameter *p) {
  return (p->count + WEIGHTS_A_TASK - 1) / WEIGHTS_A_TASK;
}

optimizer *optimizer_create(const parameter *parameters, int64_t count, pool *threads) {
  int64_t weights = 0;
  optimizer *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->threads = threads;
  for (int64_t i = 0; i < count; ++i) {
    weights += parameters[i].count;
    o->num_stretches += stretches_of(&parameters[i]);
  }
  o->stretches = calloc((size_t)o->num_stretches, sizeof *o->stretches);
  o->averages = calloc((size_t)(2 * weights), sizeof *o->averages);
  if (!o->stretches || !o->averages) {
    optimizer_destroy(o);
    return NULL;
  }
  stretch *s = o->stretches;
  float *average = o->averages;
  for (int64_t i = 0; i < count; ++i) {
    const parameter *p = &parameters[i];
    for (int64_t first = 0; first < p->count; first += WEIGHTS_A_TASK, ++s) {
      int64_t left = p->count - first;
      s->count = left < WEIGHTS_A_TASK ? left : WEIGHTS_A_TASK;
      s->value = p->value + first;
      s->gradient = p->gradient + first;
      s->decays = p->deviation > 0;
      s->mean = average;
      s->square = average + s->count;
      average += 2 * s->count;
    }
  }
  return o;
}

void optimizer_destroy(optimizer *o) {
  if (!o) return;
  free(o->averages);
  free(o->stretches);
  free(o);
}

static void squares_task(void *work, int64_t index) {
  optimizer *o = work;
  stretch *s = &o->stretches[index];
  double sum = 0;
  for (int64_t i = 0; i < s->count; ++i) sum += (double)s->gradient[i] * s->gradient[i];
  s->squares = sum;
}

static double gradient_norm(optimizer *o) {
  double sum = 0;
  pool_run(o->threads, squares_task, o, o->num_stretches);
  for (int64_t i = 0; i < o->num_stretches; ++i) sum += o->stretches[i].squares;
  return sqrt(sum);
}

static void update_task(void *work, int64_t index) {
  const float beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-8f, decay = 0.1f;
  const optimizer *o = work;
  const stretch *s = &o->stretches[index];
  /* The averages begin at zero: these undo what they lack in the first steps. */
  float mean_factor = (float)(1 / (1 - pow(beta1, (double)o->step)));
  float square_factor = (float)(1 / (1 - pow(beta2, (double)o->step)));
  float keep = s->decays ? 1 - o->rate * decay : 1;
  for (int64_t i = 0; i < s->count; ++i) {
    float gradient = s->gradient[i] * o->clip;
    s->mean[i] += (1 - beta1) * (gradient - s->mean[i]);
    s->square[i] += (1 - beta2) * (gradient * gradient - s->square[i]);
    float direction = s->mean[i] * mean_factor / (sqrtf(s->square[i] * square_factor) + epsilon);
    s->value[i] = s->value[i] * keep - o->rate * direction;
  }
}

double optimizer_step(optimizer *o, double rate) {
  double norm = gradient_norm(o);
  o->step++;
  o->rate = (float)rate;
  o->clip = norm > 1 ? (float)(1 / norm) : 1;
  pool_run(o->threads, update_task, o, o->num_stretches);
  return norm;
}
