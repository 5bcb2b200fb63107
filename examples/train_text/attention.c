/* attention.c: grouped-query causal attention through fagen, and the memory it works on. All that
   the device touches comes from fa_memory_alloc, so the same code serves the processor and a GPU.
 */
#include "train_text.h"
#include "half.h"

#include <math.h>
#include <stdlib.h>

typedef struct saved_layer { /* on the device, from forward to backward */
  void *qkv, *o;
  float *lse;
  int64_t batch, length;
} saved_layer;

struct attention {
  attention_shape shape;
  fa_context *context;
  fa_context_info info;
  const fa_kernel *forward, *backward;
  saved_layer *layers;
  void *dout, *dqkv; /* on the device */
  uint16_t *staging; /* on the host: one tensor in 16 bits */
};

/* Columns of a row of o and of qkv. */
static int64_t o_width(const attention *a) {
  return a->shape.heads * a->shape.head_dim;
}
static int64_t qkv_width(const attention *a) {
  return o_width(a) + 2 * a->shape.heads_kv * a->shape.head_dim;
}

static size_t element_bytes(const attention *a) {
  return a->shape.dtype == FA_F32 ? 4 : 2;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static fa_status open_device(attention *a) {
  fa_options options = FA_OPTIONS_INIT;
  options.threads = a->shape.threads;
  options.backend = FA_CUDA;
  if (a->shape.target == FA_TARGET_CPU) options.backend = FA_CPU;
  if (a->shape.target == FA_TARGET_BEST) /* only the processor computes on f32 */
    options.backend = a->shape.dtype == FA_F32 ? FA_CPU : FA_BACKEND_BEST;
  fa_status status = fa_context_create(&a->context, &options);
  if (status == FA_OK) status = fa_context_info_get(&a->info, a->context);
  if (status == FA_OK && a->shape.dtype == 0)
    a->shape.dtype = a->info.backend == FA_CPU ? FA_F32 : FA_BF16;
  return status;
}

static fa_status find_kernel(attention *a, const fa_kernel **kernel, fa_pass pass) {
  fa_spec spec = FA_SPEC_INIT;
  spec.pass = pass;
  spec.target = a->shape.target;
  spec.dtype = a->shape.dtype;
  spec.dim_qk = (int32_t)a->shape.head_dim;
  spec.group = (int32_t)(a->shape.heads / a->shape.heads_kv);
  spec.causal = 1;
  spec.deterministic = 1;
  return fa_get_kernel(kernel, a->context, &spec);
}

static fa_status allocate(attention *a) {
  size_t rows = (size_t)(a->shape.batch * a->shape.length);
  size_t o_bytes = rows * (size_t)o_width(a) * element_bytes(a);
  size_t qkv_bytes = rows * (size_t)qkv_width(a) * element_bytes(a);
  size_t lse_bytes = rows * (size_t)a->shape.heads * sizeof(float);
  a->layers = calloc((size_t)a->shape.layers, sizeof *a->layers);
  a->staging = malloc(qkv_bytes);
  if (!a->layers || !a->staging) return FA_NO_MEMORY;
  fa_status status = fa_memory_alloc(&a->dout, a->context, o_bytes);
  if (status == FA_OK) status = fa_memory_alloc(&a->dqkv, a->context, qkv_bytes);
  for (int64_t i = 0; i < a->shape.layers && status == FA_OK; ++i) {
    saved_layer *layer = &a->layers[i];
    void *lse = NULL;
    status = fa_memory_alloc(&layer->qkv, a->context, qkv_bytes);
    if (status == FA_OK) status = fa_memory_alloc(&layer->o, a->context, o_bytes);
    if (status == FA_OK) status = fa_memory_alloc(&lse, a->context, lse_bytes);
    layer->lse = lse;
  }
  return status;
}

fa_status attention_create(attention **out, const attention_shape *shape) {
  attention *a = *out = calloc(1, sizeof *a);
  if (!a) return FA_NO_MEMORY;
  a->shape = *shape;
  a->info = (fa_context_info)FA_CONTEXT_INFO_INIT;
  fa_status status = open_device(a);
  if (status == FA_OK) status = find_kernel(a, &a->forward, FA_FWD);
  if (status == FA_OK) status = find_kernel(a, &a->backward, FA_BWD);
  if (status == FA_OK) status = allocate(a);
  return status;
}

void attention_destroy(attention *a) {
  if (!a) return;
  for (int64_t i = 0; i < a->shape.layers && a->layers; ++i) {
    fa_memory_free(a->context, a->layers[i].qkv);
    fa_memory_free(a->context, a->layers[i].o);
    fa_memory_free(a->context, a->layers[i].lse);
  }
  if (a->context) {
    fa_memory_free(a->context, a->dout);
    fa_memory_free(a->context, a->dqkv);
  }
  fa_context_destroy(a->context);
  free(a->staging);
  free(a->layers);
  free(a);
}

int attention_threads(const attention *a) {
  return a->info.threads;
}

static double build_ms(const fa_kernel *kernel, const char **name) {
  fa_kernel_info info = FA_KERNEL_INFO_INIT;
  if (fa_kernel_info_get(&info, kernel) != FA_OK) return 0;
  *name = info.name;
  return info.render_ms + info.compile_ms + info.load_ms;
}

void attention_describe(const attention *a, FILE *to) {
  const char *forward = "", *backward = "";
  double ms = build_ms(a->forward, &forward) + build_ms(a->backward, &backward);
  if (a->info.backend == FA_CPU)
    fprintf(to, "attention on the processor (%s, threads: %d)", a->info.simd, a->info.threads);
  else
    fprintf(to, "attention on a GPU (compute capability %d.%d)", a->info.arch / 10,
            a->info.arch % 10);
  fprintf(to, ", built in %.1f ms:\n  %s\n  %s\n", ms, forward, backward);
}

/* ---- Between f32 on the host and the storage type on the device ----------------------------- */

enum { ELEMENTS_A_TASK = 1 << 14 };

typedef struct conversion {
  int32_t dtype;
  int64_t count;
  float scale;
  const float *from;
  float *to;
  uint16_t *half;
} conversion;

static int64_t task_end(const conversion *w, int64_t index) {
  int64_t end = (index + 1) * ELEMENTS_A_TASK;
  return end < w->count ? end : w->count;
}

static void round_task(void *work, int64_t index) {
  const conversion *w = work;
  int64_t end = task_end(w, index);
  if (w->dtype == FA_F16)
    for (int64_t i = index * ELEMENTS_A_TASK; i < end; ++i)
      w->half[i] = f16_from(w->from[i] * w->scale);
  else
    for (int64_t i = index * ELEMENTS_A_TASK; i < end; ++i) w->half[i] = bf16_from(w->from[i]);
}

static void widen_task(void *work, int64_t index) {
  const conversion *w = work;
  int64_t end = task_end(w, index);
  if (w->dtype == FA_F16)
    for (int64_t i = index * ELEMENTS_A_TASK; i < end; ++i)
      w->to[i] = f16_to(w->half[i]) * w->scale;
  else
    for (int64_t i = index * ELEMENTS_A_TASK; i < end; ++i) w->to[i] = bf16_to(w->half[i]);
}

static void convert(attention *a, pool *threads, pool_task *task, const float *from, float *to,
                    int64_t count, float scale) {
  conversion w = {a->shape.dtype, count, scale, from, to, a->staging};
  pool_run(threads, task, &w, (count + ELEMENTS_A_TASK - 1) / ELEMENTS_A_TASK);
}

static fa_status upload(attention *a, pool *threads, void *device, const float *from, int64_t count,
                        float scale) {
  const void *source = from;
  if (a->shape.dtype != FA_F32) {
    convert(a, threads, round_task, from, NULL, count, scale);
    source = a->staging;
  }
  return fa_memory_copy(a->context, device, source, (size_t)count * element_bytes(a), NULL);
}

static fa_status download(attention *a, pool *threads, float *to, const void *device, int64_t count,
                          float scale) {
  bool wide = a->shape.dtype == FA_F32;
  fa_status status = fa_memory_copy(a->context, wide ? (void *)to : a->staging, device,
                                    (size_t)count * element_bytes(a), NULL);
  if (status == FA_OK && !wide) convert(a, threads, widen_task, NULL, to, count, scale);
  return status;
}

/* The power of two that brings the largest element near 1. A mean over thousands of bytes has
   gradients below what f16 can hold; backward is linear in dout, so a factor can be undone. */
static float f16_scale(const float *x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = fmaxf(largest, fabsf(x[i]));
  if (largest == 0 || !isfinite(largest)) return 1;
  int exponent;
  frexpf(largest, &exponent);
  return ldexpf(1, exponent < -100 ? 100 : -exponent);
}

/* ---- Forward and backward ------------------------------------------------------------------- */

/* The heads that begin `column` columns into the rows of a packed qkv. */
static fa_tensor packed(const attention *a, void *qkv, int64_t length, int64_t column) {
  fa_tensor t;
  t.data = (char *)qkv + (size_t)column * element_bytes(a);
  t.stride_batch = length * qkv_width(a);
  t.stride_seq = qkv_width(a);
  t.stride_head = a->shape.head_dim;
  return t;
}

static fa_args arguments(const attention *a, const saved_layer *layer) {
  const attention_shape *s = &a->shape;
  int64_t k_column = o_width(a), v_column = k_column + s->heads_kv * s->head_dim;
  fa_args args = FA_ARGS_INIT;
  args.batch = layer->batch;
  args.heads_q = s->heads;
  args.heads_kv = s->heads_kv;
  args.seqlen_q = args.seqlen_k = layer->length;
  args.target = s->target;
  args.dtype = s->dtype;
  args.dim_qk = (int32_t)s->head_dim;
  args.causal = 1;
  args.deterministic = 1;
  args.q = packed(a, layer->qkv, layer->length, 0);
  args.k = packed(a, layer->qkv, layer->length, k_column);
  args.v = packed(a, layer->qkv, layer->length, v_column);
  args.o = fa_bshd(layer->o, layer->length, s->heads, s->head_dim);
  args.lse = layer->lse;
  args.dout = fa_bshd(a->dout, layer->length, s->heads, s->head_dim);
  args.dq = packed(a, a->dqkv, layer->length, 0);
  args.dk = packed(a, a->dqkv, layer->length, k_column);
  args.dv = packed(a, a->dqkv, layer->length, v_column);
  return args;
}

fa_status attention_forward(attention *a, pool *threads, int64_t layer, int64_t batch,
                            int64_t length, const float *qkv, float *o) {
  saved_layer *saved = &a->layers[layer];
  int64_t rows = batch * length;
  saved->batch = batch;
  saved->length = length;
  fa_status status = upload(a, threads, saved->qkv, qkv, rows * qkv_width(a), 1);
  fa_args args = arguments(a, saved);
  if (status == FA_OK) status = fa_forward(a->context, &args, NULL);
  if (status == FA_OK) status = download(a, threads, o, saved->o, rows * o_width(a), 1);
  return status;
}

fa_status attention_backward(attention *a, pool *threads, int64_t layer, const float *dout,
                             float *dqkv) {
  const saved_layer *saved = &a->layers[layer];
  int64_t rows = saved->batch * saved->length;
  float scale = a->shape.dtype == FA_F16 ? f16_scale(dout, rows * o_width(a)) : 1;
  fa_status status = upload(a, threads, a->dout, dout, rows * o_width(a), scale);
  fa_args args = arguments(a, saved);
  if (status == FA_OK) status = fa_backward(a->context, &args, NULL);
  if (status == FA_OK) status = download(a, threads, dqkv, a->dqkv, rows * qkv_width(a), 1 / scale);
  return status;
}
