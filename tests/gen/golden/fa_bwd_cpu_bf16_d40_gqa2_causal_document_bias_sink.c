/* fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink
 *
 * Emitted by fagen 0.1.0 from the spec
 *   bwd cpu bf16 d40 gqa2 causal document bias sink
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

typedef unsigned short element; /* one value of a tensor; the bits of bf16 */

/* batch x seqlen x heads x dim, strides in elements, the last one 1. */
typedef struct tensor {
  element *data;
  long long stride_batch, stride_seq, stride_head;
} tensor;

/* The parameters of the variants. */
typedef struct parameters {
  const int *document_k_ids; /* batch x seqlen_k */
  const int *document_q_ids; /* batch x seqlen_q */
  const float *bias_table; /* heads_q x distances */
  long long bias_table_length; /* distances */
  const float *sink_logit; /* heads_q */
} parameters;

/* Where each block of main leaves what it adds to the gradients of parameters. */
typedef struct gradient_parts {
  float *bias_table;
  float *sink_logit;
} gradient_parts;

typedef struct preprocess_args {
  long long seqlen_q, seqlen_k, heads_q;
  tensor o, dout;
  const float *dlse; /* batch x heads_q x seqlen_q, or NULL */
  float *d;          /* batch x heads_q x seqlen_q: rowsum(dO * O) - dLSE */
  float *dq_sum;     /* batch x heads_q x seqlen_q x LD_QK, to be cleared */
  int *progress;     /* batch x heads_kv x key tiles, to be cleared */
} preprocess_args;

typedef struct backward_args {
  long long seqlen_q, seqlen_k, heads_q, heads_kv;
  tensor q, k, v, dout, dk, dv;
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dq_sum;        /* batch x heads_q x seqlen_q x LD_QK */
  int *progress;        /* batch x heads_kv x key tiles: query tiles behind each key tile */
  float softmax_scale;
  parameters p;
  gradient_parts parts;
} backward_args;

typedef struct convert_args {
  long long seqlen_q, heads_q;
  tensor dq;
  const float *dq_sum;
  float softmax_scale;
} convert_args;

typedef struct gradient_args {
  long long batch, seqlen_q, seqlen_k, heads_q, heads_kv;
  parameters p;
  gradient_parts parts, out; /* out: the gradients; NULL where none is wanted */
  const float *lse, *d; /* batch x heads_q x seqlen_q */
  float *dsink;         /* batch x heads_q: gradient of each row's logit, rows summed */
} gradient_args;

enum {
  QUERIES = 64, /* rows of a query tile */
  KEYS = 64,    /* keys of a key tile */
  DIM_QK = 40,
  DIM_V = 40,
  LD_QK = 48, /* DIM_QK padded to FA_CPU_PAD: a tile's row length */
  LD_V = 48,
  GROUP = 2 /* query heads a key/value head */
};

#define MINUS_INFINITY (-1.0f / 0.0f)
#define FAR (1LL << 40) /* past every position */

static inline long long min(long long a, long long b) { return a < b ? a : b; }
static inline long long max(long long a, long long b) { return a > b ? a : b; }

/* An index into a table of `length` elements; past an end it is that end. */
static inline long long within(long long index, long long length) {
  return max(0, min(index, length - 1));
}

/* The least and the largest of some values; of very many, what no value passes. */
static void range_of(const int *values, long long count, long long *low, long long *high) {
  const long long farthest = 1LL << 31, many = 4096;
  *low = count > many ? -farthest : farthest;
  *high = -*low;
  for (long long i = 0; i < count && count <= many; ++i) {
    *low = min(*low, values[i]);
    *high = max(*high, values[i]);
  }
}

/* The rows of one head of one batch entry. */
static inline element *rows_of(const tensor *t, long long batch, long long head) {
  return t->data + batch * t->stride_batch + head * t->stride_head;
}

/* What the mask keeps of the pairs of a tile, found from the ranges of its positions: SOME where
 * that is not certain. */
enum { NONE, SOME, ALL };

static int tile_kept(const backward_args *a, long long batch, long long q_low,
    long long q_high, long long k_low, long long k_high) {
  const int may_16 = k_low <= q_high, must_16 = k_high <= q_low;
  long long low_2, high_2;
  range_of(a->p.document_q_ids + batch * a->seqlen_q + q_low - a->seqlen_k +
      a->seqlen_q, q_high - q_low + 1, &low_2, &high_2);
  long long low_1, high_1;
  range_of(a->p.document_k_ids + batch * a->seqlen_k + k_low, k_high - k_low + 1,
      &low_1, &high_1);
  const int may_17 = low_2 <= high_1 && low_1 <= high_2, must_17 = low_2 == high_1 &&
      low_1 == high_2;
  const int may_18 = may_16 && may_17, must_18 = must_16 && must_17;
  return !may_18 ? NONE : must_18 ? ALL : SOME;
}

/* Preprocess: D = rowsum(dO * O) - dLSE, and cleared memory for what backward sums up.
 *
 * Grid: query tiles, at least 1 where there are keys, x heads_q x batch. No scratch.
 */
void fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_preprocess(
    const void *args, const fa_cpu_block *block) {
  const preprocess_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  const long long row_first = block->x * QUERIES, head = block->y, batch = block->z;
  const int rows = (int)max(0, min(QUERIES, a->seqlen_q - row_first));
  const long long row = (batch * a->heads_q + head) * a->seqlen_q + row_first;
  const element *o = rows_of(&a->o, batch, head) + row_first * a->o.stride_seq;
  const element *dout = rows_of(&a->dout, batch, head) + row_first * a->dout.stride_seq;

  ops->dot_rows_bf16(a->d + row, o, a->o.stride_seq, dout, a->dout.stride_seq, rows,
      DIM_V);
  if (a->dlse)
    for (int i = 0; i < rows; ++i)
      a->d[row + i] -= a->dlse[row + i];

  ops->zero(a->dq_sum + row * LD_QK, (long long)sizeof(float) * rows * LD_QK);
  if (block->x == 0 && head % GROUP == 0) {
    const long long tiles = (a->seqlen_k + KEYS - 1) / KEYS;
    const long long pair = batch * (a->heads_q / GROUP) + head / GROUP;
    ops->zero(a->progress + pair * tiles, (long long)sizeof(int) * tiles);
  }
}

/* Backward: with P = exp(S - LSE) rebuilt from Q, K and LSE, and D from the preprocess,
 *   dV = P^T dO,  dP = dO V^T,  dS = P * (dP - D),  dQ = softmax_scale * dS K,
 *   dK = softmax_scale * dS^T Q
 * (Dao et al., arXiv:2205.14135, algorithm 4). Keys are the outer loop: dK and dV of a key tile
 * stay in scratch while all queries of all heads of the group pass by, so that K, V, dK and dV are
 * never expanded. dQ is summed in memory, key tiles in ascending order: a block adds to a query
 * tile only when the block of the key tile before has passed it, which makes dQ the same to the
 * last bit whatever the threads do. That block has started earlier, so nobody waits for ever.
 *
 * Grid: heads_kv x batch x key tiles: blocks that wait on each other start far apart.
 */
void fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_main(
    const void *args, const fa_cpu_block *block) {
  const backward_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  float *k = block->scratch;          /* KEYS x LD_QK */
  float *k_t = k + KEYS * LD_QK;      /* DIM_QK x KEYS */
  float *v_t = k_t + DIM_QK * KEYS;   /* DIM_V x KEYS */
  float *q = v_t + DIM_V * KEYS;      /* QUERIES x LD_QK, times softmax_scale */
  float *dout = q + QUERIES * LD_QK;  /* QUERIES x LD_V */
  float *s = dout + QUERIES * LD_V;   /* QUERIES x KEYS: scores, then probabilities */
  float *ds = s + QUERIES * KEYS;     /* QUERIES x KEYS: dP, then dS */
  float *dk = ds + QUERIES * KEYS;    /* KEYS x LD_QK */
  float *dv = dk + KEYS * LD_QK;      /* KEYS x LD_V; first a place for V */

  const long long head_kv = block->x, batch = block->y, key_tile = block->z;
  const long long key_first = key_tile * KEYS;
  const int keys = (int)min(KEYS, a->seqlen_k - key_first);
  const long long query_tiles = (a->seqlen_q + QUERIES - 1) / QUERIES;
  const long long key_tiles = (a->seqlen_k + KEYS - 1) / KEYS;
  int *progress = a->progress + (batch * a->heads_kv + head_kv) * key_tiles + key_tile;

  const element *k_rows = rows_of(&a->k, batch, head_kv) + key_first * a->k.stride_seq;
  const element *v_rows = rows_of(&a->v, batch, head_kv) + key_first * a->v.stride_seq;
  ops->load_bf16(k, LD_QK, k_rows, a->k.stride_seq, keys, DIM_QK, 1.0f);
  ops->transpose(k_t, KEYS, k, LD_QK, keys, DIM_QK);
  ops->load_bf16(dv, LD_V, v_rows, a->v.stride_seq, keys, DIM_V, 1.0f);
  ops->transpose(v_t, KEYS, dv, LD_V, keys, DIM_V);
  ops->zero(dk, (long long)sizeof(float) * KEYS * LD_QK);
  ops->zero(dv, (long long)sizeof(float) * KEYS * LD_V);

  /* Positions are on the key axis: the last query stands at the last key. */
  const long long shift = a->seqlen_k - a->seqlen_q;
  const long long key_last = key_first + keys - 1;
  const long long tile_begin = max(key_first - shift, 0) / 64;

  float *bias_table = a->parts.bias_table +
      ((batch * a->heads_kv + head_kv) * key_tiles + key_tile) * GROUP * a->p.bias_table_length;
  for (long long e = 0; e < GROUP * a->p.bias_table_length; ++e)
    bias_table[e] = 0.0f;

  for (int member = 0; member < GROUP; ++member) {
    const long long head = head_kv * GROUP + member;
    const element *q_head = rows_of(&a->q, batch, head);
    const element *dout_head = rows_of(&a->dout, batch, head);

    for (long long tile = tile_begin; tile < query_tiles; ++tile) {
      const long long first_of_tile = tile * QUERIES + shift;
      const int kept = tile_kept(a, batch, first_of_tile,
          min(first_of_tile + QUERIES, a->seqlen_k) - 1, key_first, key_last);
      if (kept == NONE)
        continue;
      const long long row_first = tile * QUERIES;
      const int rows = (int)min(QUERIES, a->seqlen_q - row_first);
      const long long row = (batch * a->heads_q + head) * a->seqlen_q + row_first;
      const element *q_rows = q_head + row_first * a->q.stride_seq;
      const element *dout_rows = dout_head + row_first * a->dout.stride_seq;
      ops->load_bf16(q, LD_QK, q_rows, a->q.stride_seq, rows, DIM_QK, a->softmax_scale);
      ops->load_bf16(dout, LD_V, dout_rows, a->dout.stride_seq, rows, DIM_V, 1.0f);

      ops->matmul(s, KEYS, q, LD_QK, 1, k_t, KEYS, rows, keys, DIM_QK, 0);
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < keys; ++j) {
          const long long q_position = row_first + shift + i, k_position = key_first + j;
          s[i * KEYS + j] = s[i * KEYS + j] + a->p.bias_table[head * a->p.bias_table_length +
              within(k_position - q_position + a->p.bias_table_length / 2,
              a->p.bias_table_length)];
          if (kept == SOME && !(k_position <= q_position && a->p.document_q_ids[batch *
              a->seqlen_q + row_first + i] == a->p.document_k_ids[batch * a->seqlen_k +
              k_position]))
            s[i * KEYS + j] = MINUS_INFINITY;
        }
      }
      ops->probabilities(s, KEYS, rows, keys, a->lse + row);
      ops->matmul(dv, LD_V, s, 1, KEYS, dout, LD_V, keys, DIM_V, rows, 1);

      ops->matmul(ds, KEYS, dout, LD_V, 1, v_t, KEYS, rows, keys, DIM_V, 0);
      ops->score_gradient(ds, s, KEYS, rows, keys, a->d + row);
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < keys; ++j) {
          const float gradient = ds[i * KEYS + j]; /* into the final score */
          if (gradient == 0.0f)
            continue;
          const long long q_position = row_first + shift + i, k_position = key_first + j;
          bias_table[member * a->p.bias_table_length + within(k_position - q_position +
              a->p.bias_table_length / 2, a->p.bias_table_length)] += gradient;
        }
      }
      ops->matmul(dk, LD_QK, ds, 1, KEYS, q, LD_QK, keys, DIM_QK, rows, 1);

      const int turn = (int)(member * query_tiles + tile + 1);
      if (key_tile > 0)
        ops->await(progress - 1, turn);
      ops->matmul(a->dq_sum + row * LD_QK, LD_QK, ds, KEYS, 1, k, LD_QK, rows, DIM_QK, keys, 1);
      ops->advance(progress, turn);
    }
  }

  /* Later key tiles wait on this counter alone, so it ends only after those before it. */
  const int passed_all = 0x7fffffff;
  if (key_tile > 0)
    ops->await(progress - 1, passed_all);
  ops->advance(progress, passed_all);

  /* The scale is in dK already, through Q. */
  element *dk_rows = rows_of(&a->dk, batch, head_kv) + key_first * a->dk.stride_seq;
  element *dv_rows = rows_of(&a->dv, batch, head_kv) + key_first * a->dv.stride_seq;
  ops->store_bf16(dk_rows, a->dk.stride_seq, dk, LD_QK, keys, DIM_QK, 1.0f);
  ops->store_bf16(dv_rows, a->dv.stride_seq, dv, LD_V, keys, DIM_V, 1.0f);
}

/* dQ = softmax_scale * its sum, in the tensor's type. Grid: query tiles x heads_q x batch. No
   scratch. */
void fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_convert(
    const void *args, const fa_cpu_block *block) {
  const convert_args *a = args;
  const long long row_first = block->x * QUERIES, head = block->y, batch = block->z;
  const int rows = (int)min(QUERIES, a->seqlen_q - row_first);
  const long long row = (batch * a->heads_q + head) * a->seqlen_q + row_first;
  element *dq_rows = rows_of(&a->dq, batch, head) + row_first * a->dq.stride_seq;
  block->ops->store_bf16(dq_rows, a->dq.stride_seq, a->dq_sum + row * LD_QK, LD_QK, rows, DIM_QK,
      a->softmax_scale);
}

/* The gradient of each row's logit, summed over the rows of a head: -exp(logit - LSE) * D.
 *
 * Grid: heads_q x batch. No scratch. */
void fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_sink(
    const void *args, const fa_cpu_block *block) {
  const gradient_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  const long long head = block->x, batch = block->y;
  const long long row = (batch * a->heads_q + head) * a->seqlen_q;
  const float logit = a->p.sink_logit[head];
  double sum = 0.0;
  for (long long i = 0; i < a->seqlen_q; ++i)
    if (a->lse[row + i] != MINUS_INFINITY)
      sum -= ops->exp(logit - a->lse[row + i]) * a->d[row + i];
  a->dsink[batch * a->heads_q + head] = (float)sum;
}

static double sum_of(const float *parts, long long outer, long long outer_stride, long long inner,
    long long inner_stride) {
  double sum = 0.0;
  for (long long i = 0; i < outer; ++i)
    for (long long j = 0; j < inner; ++j)
      sum += parts[i * outer_stride + j * inner_stride];
  return sum;
}

enum { ELEMENTS = 256 }; /* of a gradient that one block sums */

/* The gradient of bias.table, ELEMENTS of it from `first` on. */
static void sum_bias_table(const gradient_args *a, long long first) {
  float *out = a->out.bias_table;
  const long long past = min(first + ELEMENTS, a->heads_q * a->p.bias_table_length);
  const long long key_tiles = (a->seqlen_k + KEYS - 1) / KEYS;
  const float *parts = a->parts.bias_table;
  for (long long e = first; e < past; ++e)
    out[e] = (float)sum_of(parts + (e / a->p.bias_table_length / GROUP * key_tiles *
        GROUP + e / a->p.bias_table_length % GROUP) * a->p.bias_table_length + e %
        a->p.bias_table_length, a->batch, a->heads_kv * key_tiles * GROUP *
        a->p.bias_table_length, key_tiles, GROUP * a->p.bias_table_length);
}

/* The gradient of sink.logit, ELEMENTS of it from `first` on. */
static void sum_sink_logit(const gradient_args *a, long long first) {
  float *out = a->out.sink_logit;
  const long long past = min(first + ELEMENTS, a->heads_q);
  for (long long e = first; e < past; ++e)
    out[e] = 0.0f;
  for (long long batch = 0; batch < a->batch; ++batch) {
    for (long long head = 0; head < a->heads_q; ++head) {
      const float dsink = a->dsink[batch * a->heads_q + head];
      const long long at_1 = head;
      if (at_1 >= first && at_1 < past)
        out[at_1] += dsink * 1.0f;
    }
  }
}

/* Gradients of parameters. Grid: the most elements that one has, by ELEMENTS, x parameters. No
 * scratch. */
void fa_bwd_cpu_bf16_d40_gqa2_causal_document_bias_sink_gradients(
    const void *args, const fa_cpu_block *block) {
  const gradient_args *a = args;
  if (block->y == 0 && a->out.bias_table)
    sum_bias_table(a, block->x * ELEMENTS);
  if (block->y == 1 && a->out.sink_logit)
    sum_sink_logit(a, block->x * ELEMENTS);
}
