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
