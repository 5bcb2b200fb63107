/* test_train_gradient.c: the gradient of the whole model of train_text, attention included, against
   central differences of its loss; and what its rows depend on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/train_text/train_text.h"

enum { BATCH = 2, LENGTH = 11, WEIGHTS_A_PART = 6 };

/* Of single weights, beside the largest gradient of their part, and of the whole part at once. The
   loss is a mean of f32 losses: differences of it carry some 1e-5 of noise. */
static const double weight_tolerance = 1e-2, part_tolerance = 2e-3;

typedef struct fixture {
  pool *threads;
  attention *attention;
  model *model;
  uint8_t tokens[BATCH * LENGTH], next[BATCH * LENGTH];
} fixture;

static double loss_of(fixture *f) {
  double loss = 0;
  assert_int_equal(model_loss(f->model, f->tokens, f->next, BATCH, LENGTH, &loss), FA_OK);
  assert_true(isfinite(loss));
  return loss;
}

/* The loss with every weight of p moved by amount * direction[i], and the weights put back. */
static double loss_moved(fixture *f, const parameter *p, const float *direction, double amount) {
  float *kept = malloc((size_t)p->count * sizeof *kept);
  assert_non_null(kept);
  for (int64_t i = 0; i < p->count; ++i) {
    kept[i] = p->value[i];
    p->value[i] += (float)(amount * direction[i]);
  }
  double loss = loss_of(f);
  for (int64_t i = 0; i < p->count; ++i) p->value[i] = kept[i];
  free(kept);
  return loss;
}

/* Central differences of fourth order, which allow a step large enough to rise above rounding. */
static double slope(fixture *f, const parameter *p, const float *direction, double step) {
  double near = loss_moved(f, p, direction, step) - loss_moved(f, p, direction, -step);
  double far = loss_moved(f, p, direction, 2 * step) - loss_moved(f, p, direction, -2 * step);
  return (8 * near - far) / (12 * step);
}

/* Some columns of a tensor. Queries, keys and values share one, and have gradients of very
   different sizes. */
typedef struct part {
  const char *name;
  const parameter *of;
  int64_t columns, first, width; /* of a row; first and number of those meant */
} part;

/* The gradient of the part, 0 elsewhere. Yours to free. */
static float *gradient_of(const part *p) {
  float *gradient = calloc((size_t)p->of->count, sizeof *gradient);
  assert_non_null(gradient);
  for (int64_t i = 0; i < p->of->count; ++i) {
    int64_t column = i % p->columns - p->first;
    if (column >= 0 && column < p->width) gradient[i] = p->of->gradient[i];
  }
  return gradient;
}

/* The worst error of a few weights that have a gradient, relative to the part's largest. */
static double weights_error(fixture *f, const part *p, const float *gradient, float *direction,
                            random_state *random) {
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < p->of->count; ++i) largest = fmax(largest, fabs((double)gradient[i]));
  assert_true(largest > 0);
  for (int n = 0; n < WEIGHTS_A_PART; ++n) {
    int64_t i;
    do i = (int64_t)(random_bits(random) % (uint64_t)p->of->count);
    while (fabs((double)gradient[i]) < 0.02 * largest);
    direction[i] = 1;
    worst = fmax(worst, fabs(slope(f, p->of, direction, 2e-2) - gradient[i]) / largest);
    direction[i] = 0;
  }
  return worst;
}

/* Along its own gradient g the loss rises by |g|. */
static double part_error(fixture *f, const part *p, const float *gradient, float *direction,
                         double norm) {
  for (int64_t i = 0; i < p->of->count; ++i) direction[i] = (float)(gradient[i] / norm);
  return fabs(slope(f, p->of, direction, 2e-2) - norm) / norm;
}

static void check_part(fixture *f, const part *p, random_state *random) {
  (void)loss_of(f);
  assert_int_equal(model_backward(f->model), FA_OK);
  float *gradient = gradient_of(p), *direction = calloc((size_t)p->of->count, sizeof *direction);
  assert_non_null(direction);
  double squares = 0;
  for (int64_t i = 0; i < p->of->count; ++i) squares += (double)gradient[i] * gradient[i];
  double of_weights = weights_error(f, p, gradient, direction, random);
  double of_part = part_error(f, p, gradient, direction, sqrt(squares));
  printf("  %-10s layer %2lld  |gradient| %.3e  error: weights %.1e, all %.1e\n", p->name,
         (long long)p->of->layer, sqrt(squares), of_weights, of_part);
  assert_true(of_weights < weight_tolerance);
  assert_true(of_part < part_tolerance);
  free(direction);
  free(gradient);
}

static void open_fixture(fixture *f, int64_t heads, int64_t heads_kv, int64_t head_dim) {
  attention_shape of_attention = {.target = FA_TARGET_CPU, .dtype = FA_F32, .threads = 2};
  of_attention.layers = 2;
  of_attention.heads = heads;
  of_attention.heads_kv = heads_kv;
  of_attention.head_dim = head_dim;
  of_attention.batch = BATCH;
  of_attention.length = LENGTH;
  model_shape shape = {2, heads, heads_kv, heads * head_dim, LENGTH, BATCH};
  random_state random = {5};
  size_t bytes;
  assert_int_equal(attention_create(&f->attention, &of_attention), FA_OK);
  f->threads = pool_create(2);
  assert_non_null(f->threads);
  f->model = model_create(&shape, f->threads, f->attention, 3, &bytes);
  assert_non_null(f->model);
  for (int i = 0; i < BATCH * LENGTH; ++i) { /* few different bytes: embeddings are summed */
    f->tokens[i] = (uint8_t)('a' + random_bits(&random) % 5);
    f->next[i] = (uint8_t)('a' + random_bits(&random) % 5);
  }
}

static void close_fixture(fixture *f) {
  model_destroy(f->model);
  pool_destroy(f->threads);
  attention_destroy(f->attention);
}

static void check_model(int64_t heads, int64_t heads_kv, int64_t head_dim) {
  fixture f;
  random_state random = {7};
  int64_t count, q = heads * head_dim, kv = heads_kv * head_dim;
  open_fixture(&f, heads, heads_kv, head_dim);
  printf("%lld query heads, %lld key/value heads of %lld\n", (long long)heads, (long long)heads_kv,
         (long long)head_dim);
  const parameter *parameters = model_parameters(f.model, &count);
  for (int64_t i = 0; i < count; ++i) {
    const parameter *p = &parameters[i];
    if (strcmp(p->name, "qkv") == 0) {
      check_part(&f, &(part){"queries", p, q + 2 * kv, 0, q}, &random);
      check_part(&f, &(part){"keys", p, q + 2 * kv, q, kv}, &random);
      check_part(&f, &(part){"values", p, q + 2 * kv, q + kv, kv}, &random);
    } else {
      check_part(&f, &(part){p->name, p, p->count, 0, p->count}, &random);
    }
  }
  close_fixture(&f);
}

static void gradient_matches_differences_with_groups(void **state) {
  (void)state;
  check_model(4, 2, 8);
}

static void gradient_matches_differences_with_one_group(void **state) {
  (void)state;
  check_model(3, 1, 16);
}

/* Logits of the first row whose values are not those kept in `before`, of BATCH * LENGTH rows. */
static int first_row_changed(const float *logits, const float *before) {
  int row = 0;
  while (row < BATCH * LENGTH && memcmp(logits + row * VOCABULARY, before + row * VOCABULARY,
                                        VOCABULARY * sizeof *logits) == 0)
    row++;
  return row;
}

static void a_row_depends_on_its_own_and_earlier_bytes_only(void **state) {
  (void)state;
  static float before[BATCH * LENGTH * VOCABULARY];
  const float *logits;
  fixture f;
  open_fixture(&f, 4, 2, 8);
  for (int changed = 0; changed < LENGTH; ++changed) {
    assert_int_equal(model_forward(f.model, f.tokens, BATCH, LENGTH, &logits), FA_OK);
    memcpy(before, logits, sizeof before);
    f.tokens[changed] ^= 1;
    assert_int_equal(model_forward(f.model, f.tokens, BATCH, LENGTH, &logits), FA_OK);
    assert_int_equal(first_row_changed(logits, before), changed);
    int last = LENGTH - 1; /* of the first stretch; the second must not notice */
    assert_memory_not_equal(logits + last * VOCABULARY, before + last * VOCABULARY,
                            VOCABULARY * sizeof *logits);
    assert_memory_equal(logits + LENGTH * VOCABULARY, before + LENGTH * VOCABULARY,
                        (BATCH - 1) * LENGTH * VOCABULARY * sizeof *logits);
  }
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradient_matches_differences_with_groups),
      cmocka_unit_test(gradient_matches_differences_with_one_group),
      cmocka_unit_test(a_row_depends_on_its_own_and_earlier_bytes_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
