/* fa_fwd_cpu_f32_d64_softcap_window
 *
 * Emitted by fagen 0.1.0 from the spec
 *   fwd cpu f32 d64 softcap window
 * Plain C99 that includes nothing: the schedule is here, the arithmetic on tiles behind fa_cpu_ops.
 */

/* cpu/abi.h: all that an emitted cpu kernel can call.
 *
 * The emitted C is the schedule; these few primitives, built into the library for several
 * instruction sets, do the arithmetic on tiles. This text is pasted into every emitted kernel and
 * included by the runtime: plain C99 types only, no includes.
 *
 * A tile is f32, row-major, rows `ld` floats apart. Where a primitive takes `cols` of a tile it may
 * read and write up to the next multiple of FA_CPU_PAD columns, so ld is such a multiple and the
 * padding of one row is not the next row. What stands in the padding never reaches a real column.
 * Strides of tensors are in elements. Every result depends on the values alone, never on the
 * thread.
 */
#ifndef FAGEN_CPU_ABI_H
#define FAGEN_CPU_ABI_H

enum { FA_CPU_PAD = 16 };

typedef struct fa_cpu_ops {
  /* tile[r][c] = scale * src[r][c]; the padding becomes 0. */
  void (*load_f32)(float *tile, long long ld, const void *src, long long stride, int rows, int cols,
                   float scale);
  void (*load_f16)(float *tile, long long ld, const void *src, long long stride, int rows, int cols,
                   float scale);
  void (*load_bf16)(float *tile, long long ld, const void *src, long long stride, int rows,
                    int cols, float scale);

  /* to[c][r] = from[r][c], tile to tile; the padding of `to` becomes 0. */
  void (*transpose)(float *to, long long ld_to, const float *from, long long ld_from, int rows,
                    int cols);

  /* dst[r][c] = scale * tile[r][c], rounded to nearest even. */
  void (*store_f32)(void *dst, long long stride, const float *tile, long long ld, int rows,
                    int cols, float scale);
  void (*store_f16)(void *dst, long long stride, const float *tile, long long ld, int rows,
                    int cols, float scale);
  void (*store_bf16)(void *dst, long long stride, const float *tile, long long ld, int rows,
                     int cols, float scale);

  /* c[m][n] = a[m][k] b[k][n], or += with accumulate. a[i][p] lies at a + i * a_row + p * a_col, so
     that a may be a transposed tile. For each element of c, k is summed in ascending order. */
  void (*matmul)(float *c, long long ldc, const float *a, long long a_row, long long a_col,
                 const float *b, long long ldb, int m, int n, int k, int accumulate);

  /* One step of the online softmax over a tile of scores: raises row_max to the new maximum, turns
     s into exp(s - row_max), scales row_sum and o by exp(old maximum - row_max), adds s's row sums
     to row_sum. Before the first tile row_max = -inf, row_sum = 0, o = 0. A score of -inf is not
     visible; a row with none visible so far keeps row_max = -inf, row_sum = 0, o = 0. */
  void (*online_softmax)(float *s, long long lds, int rows, int keys, float *row_max,
                         float *row_sum, float *o, long long ldo, int dim_v);

  /* o /= row_sum, lse = row_max + ln(row_sum); a row that saw no key gets o = 0, lse = -inf. */
  void (*softmax_end)(float *o, long long ldo, int rows, int dim_v, const float *row_max,
                      const float *row_sum, float *lse);

  /* s = exp(s - lse) by row; 0 where s or lse is -inf. */
  void (*probabilities)(float *s, long long lds, int rows, int keys, const float *lse);

  /* dp = p * (dp - d) by row, by selection 0 where p is 0: the gradient into the scores. */
  void (*score_gradient)(float *dp, const float *p, long long ld, int rows, int keys,
                         const float *d);

  /* out[r] = sum over c of a[r][c] * b[r][c], in f32. */
  void (*dot_rows_f32)(float *out, const void *a, long long stride_a, const void *b,
                       long long stride_b, int rows, int cols);
  void (*dot_rows_f16)(float *out, const void *a, long long stride_a, const void *b,
                       long long stride_b, int rows, int cols);
  void (*dot_rows_bf16)(float *out, const void *a, long long stride_a, const void *b,
                        long long stride_b, int rows, int cols);

  void (*zero)(void *memory, long long bytes);

  /* A counter that one block raises and one other waits on, so that sums have one order. await
     returns when *counter >= value and then sees what was written before the matching advance. */
  void (*await)(const int *counter, int value);
  void (*advance)(int *counter, int value);

  /* For expressions of variants. sigmoid = 1 / (1 + exp(-x)), mod = a - floor(a / b) * b. */
  float (*exp)(float x);
  float (*log)(float x);
  float (*tanh)(float x);
  float (*sigmoid)(float x);
  float (*floor)(float x);
  float (*mod)(float a, float b);
} fa_cpu_ops;

/* One block of the grid. Blocks start in ascending order of x + grid.x * (y + grid.y * z): a block
   may wait for a lower one, never for a higher. */
typedef struct fa_cpu_block {
  long long x, y, z;
  float *scratch; /* the step's shared_bytes, 64-byte aligned, this thread's own, never cleared */
  const fa_cpu_ops *ops;
} fa_cpu_block;

/* The type of every entry; args is the step's argument block. */
typedef void (*fa_cpu_entry)(const void *args, const fa_cpu_block *block);

#endif

typedef float element; /* one value of a tensor */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;

/* The parameters of the variants. */
typedef struct parameters {
  float softcap_cap;
  long long window_left;
  long long window_right;
} parameters;

typedef struct forward_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor q, k, v, o;
  float *lse; /* batch x heads_q x seqlen_q */
  float softmax_scale;
  parameters p;
} forward_args;

enum {
  QUERIES = 64, /* rows of a query tile */
  KEYS = 64,    /* keys of a key tile */
  DIM_QK = 64,
  DIM_V = 64,
  LD_QK = 64, /* DIM_QK padded to FA_CPU_PAD: a tile's row length */
  LD_V = 64,
  GROUP = 1 /* query heads a key/value head */
};

#define MINUS_INFINITY (-1.0f / 0.0f)
#define FAR (1LL << 40) /* past every position */

static inline long long min(long long a, long long b) { return a < b ? a : b; }
static inline long long max(long long a, long long b) { return a > b ? a : b; }

/* The rows of one head of one batch entry. */
static inline element *rows_of(const tensor *t, long long batch, long long head) {
  return t->data + batch * t->stride_batch + head * t->stride_head;
}

/* Attention forward: O = softmax(S) V and LSE, S = softmax_scale * Q K^T, with the online softmax
 * (Milakov and Gimelshein, arXiv:1805.02867): row maxima, row sums and O are kept for the keys seen
 * so far and rescaled as the maximum grows, so that no row of S is ever whole in memory.
 *
 * Grid: query tiles x heads_q x batch. Scratch: the tiles declared first.
 */
void fa_fwd_cpu_f32_d64_softcap_window_main(
    const void *args, const fa_cpu_block *block) {
  const forward_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  float *q = block->scratch;        /* QUERIES x LD_QK, times softmax_scale */
  float *k = q + QUERIES * LD_QK;   /* KEYS x LD_QK */
  float *k_t = k + KEYS * LD_QK;    /* DIM_QK x KEYS */
  float *v = k_t + DIM_QK * KEYS;   /* KEYS x LD_V */
  float *s = v + KEYS * LD_V;       /* QUERIES x KEYS: scores, then probabilities */
  float *o = s + QUERIES * KEYS;    /* QUERIES x LD_V */
  float *row_max = o + QUERIES * LD_V, *row_sum = row_max + QUERIES;

  const long long row_first = block->x * QUERIES, head = block->y, batch = block->z;
  const int rows = (int)min(QUERIES, a->seqlen_q - row_first);
  const long long tiles = (a->seqlen_k + KEYS - 1) / KEYS;
  const element *q_head = rows_of(&a->q, batch, head);
  const element *k_head = rows_of(&a->k, batch, head / GROUP);
  const element *v_head = rows_of(&a->v, batch, head / GROUP);

  const element *q_rows = q_head + row_first * a->q.stride_seq;
  ops->load_f32(q, LD_QK, q_rows, a->q.stride_seq, rows, DIM_QK, a->softmax_scale);
  ops->zero(o, (long long)sizeof(float) * QUERIES * LD_V);
  for (int i = 0; i < rows; ++i) {
    row_max[i] = MINUS_INFINITY;
    row_sum[i] = 0.0f;
  }

  /* Positions are on the key axis: the last query stands at the last key. */
  const long long q_first = row_first + a->seqlen_k - a->seqlen_q;
  const long long q_last = q_first + rows - 1;
  const long long tile_begin = max((a->p.window_left < 0 ? -FAR : q_first -
      a->p.window_left), 0) / 64;
  const long long tile_end = min((max((a->p.window_right < 0 ? FAR : q_last +
      a->p.window_right) + 1, 0) + 63) / 64, tiles);
  const long long full_begin = min((max((a->p.window_left < 0 ? -FAR : q_last -
      a->p.window_left), 0) + 63) / 64, tile_end);
  const long long full_past = (a->p.window_right < 0 ? FAR : q_first + a->p.window_right) + 1;
  const long long full_end = full_past >= a->seqlen_k ? tiles : max(full_past / 64,
      full_begin);

  for (long long tile = tile_begin; tile < full_begin; ++tile) {
    const int keys = (int)min(KEYS, a->seqlen_k - tile * KEYS);
    const element *k_rows = k_head + tile * KEYS * a->k.stride_seq;
    const element *v_rows = v_head + tile * KEYS * a->v.stride_seq;
    ops->load_f32(k, LD_QK, k_rows, a->k.stride_seq, keys, DIM_QK, 1.0f);
    ops->transpose(k_t, KEYS, k, LD_QK, keys, DIM_QK);
    ops->matmul(s, KEYS, q, LD_QK, 1, k_t, KEYS, rows, keys, DIM_QK, 0);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < keys; ++j) {
        const long long q_position = q_first + i, k_position = tile * KEYS + j;
        s[i * KEYS + j] = a->p.softcap_cap * ops->tanh(s[i * KEYS + j] / a->p.softcap_cap);
        if (!((a->p.window_left < 0 || k_position - q_position >= -a->p.window_left) &&
            (a->p.window_right < 0 || k_position - q_position <= a->p.window_right)))
          s[i * KEYS + j] = MINUS_INFINITY;
      }
    }
    ops->online_softmax(s, KEYS, rows, keys, row_max, row_sum, o, LD_V, DIM_V);
    ops->load_f32(v, LD_V, v_rows, a->v.stride_seq, keys, DIM_V, 1.0f);
    ops->matmul(o, LD_V, s, KEYS, 1, v, LD_V, rows, DIM_V, keys, 1);
  }

  for (long long tile = full_begin; tile < full_end; ++tile) {
    const int keys = (int)min(KEYS, a->seqlen_k - tile * KEYS);
    const element *k_rows = k_head + tile * KEYS * a->k.stride_seq;
    const element *v_rows = v_head + tile * KEYS * a->v.stride_seq;
    ops->load_f32(k, LD_QK, k_rows, a->k.stride_seq, keys, DIM_QK, 1.0f);
    ops->transpose(k_t, KEYS, k, LD_QK, keys, DIM_QK);
    ops->matmul(s, KEYS, q, LD_QK, 1, k_t, KEYS, rows, keys, DIM_QK, 0);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < keys; ++j) {
        s[i * KEYS + j] = a->p.softcap_cap * ops->tanh(s[i * KEYS + j] / a->p.softcap_cap);
      }
    }
    ops->online_softmax(s, KEYS, rows, keys, row_max, row_sum, o, LD_V, DIM_V);
    ops->load_f32(v, LD_V, v_rows, a->v.stride_seq, keys, DIM_V, 1.0f);
    ops->matmul(o, LD_V, s, KEYS, 1, v, LD_V, rows, DIM_V, keys, 1);
  }

  for (long long tile = full_end; tile < tile_end; ++tile) {
    const int keys = (int)min(KEYS, a->seqlen_k - tile * KEYS);
    const element *k_rows = k_head + tile * KEYS * a->k.stride_seq;
    const element *v_rows = v_head + tile * KEYS * a->v.stride_seq;
    ops->load_f32(k, LD_QK, k_rows, a->k.stride_seq, keys, DIM_QK, 1.0f);
    ops->transpose(k_t, KEYS, k, LD_QK, keys, DIM_QK);
    ops->matmul(s, KEYS, q, LD_QK, 1, k_t, KEYS, rows, keys, DIM_QK, 0);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < keys; ++j) {
        const long long q_position = q_first + i, k_position = tile * KEYS + j;
        s[i * KEYS + j] = a->p.softcap_cap * ops->tanh(s[i * KEYS + j] / a->p.softcap_cap);
        if (!((a->p.window_left < 0 || k_position - q_position >= -a->p.window_left) &&
            (a->p.window_right < 0 || k_position - q_position <= a->p.window_right)))
          s[i * KEYS + j] = MINUS_INFINITY;
      }
    }
    ops->online_softmax(s, KEYS, rows, keys, row_max, row_sum, o, LD_V, DIM_V);
    ops->load_f32(v, LD_V, v_rows, a->v.stride_seq, keys, DIM_V, 1.0f);
    ops->matmul(o, LD_V, s, KEYS, 1, v, LD_V, rows, DIM_V, keys, 1);
  }

  float *lse = a->lse + (batch * a->heads_q + head) * a->seqlen_q + row_first;
  element *o_rows = rows_of(&a->o, batch, head) + row_first * a->o.stride_seq;
  ops->softmax_end(o, LD_V, rows, DIM_V, row_max, row_sum, lse);
  ops->store_f32(o_rows, a->o.stride_seq, o, LD_V, rows, DIM_V, 1.0f);
}
