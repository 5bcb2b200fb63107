/* cpu_matmul.inc.c: c = a b over tiles. A block of c stays in registers while k runs, so that each
   of its elements is one chain of multiply-adds in ascending k, whatever the block's shape or place
   is. Blocks of fewer rows are instances of the same text for the same reason. */

/* The block that the registers hold beside a row of b: the more rows, the less often b is read. */
#if defined(__AVX512F__)
enum { BLOCK_ROWS = 8, BLOCK_VECS = 2 };
#elif defined(__AVX2__)
enum { BLOCK_ROWS = 6, BLOCK_VECS = 2 };
#elif defined(__SSE2__)
enum { BLOCK_ROWS = 4, BLOCK_VECS = 2 };
#else
enum { BLOCK_ROWS = 4, BLOCK_VECS = 4 };
#endif

/* A matrix whose element (r, c) lies at data + r * row + c * col. */
typedef struct strided {
  const float *data;
  long long row, col;
} strided;

/* rows and vecs are constants at every call. */
INLINE void matmul_block(int rows, int vecs, float *restrict c, long long ldc, strided a,
                         const float *restrict b, long long ldb, int k, int accumulate) {
  vec sum[BLOCK_ROWS][BLOCK_VECS] = {{{0}}};
  if (accumulate)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < vecs; j++) sum[i][j] = vec_load(c + i * ldc + j * VEC_LANES);

  for (int p = 0; p < k; p++) {
    vec b_row[BLOCK_VECS];
    for (int j = 0; j < vecs; j++) b_row[j] = vec_load(b + j * VEC_LANES);
    for (int i = 0; i < rows; i++) {
      vec x = vec_all(a.data[i * a.row]);
      for (int j = 0; j < vecs; j++) sum[i][j] = vec_fma(x, b_row[j], sum[i][j]);
    }
    a.data += a.col;
    b += ldb;
  }

  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vecs; j++) vec_store(c + i * ldc + j * VEC_LANES, sum[i][j]);
}

/* All m rows of `vecs` vectors of columns. */
INLINE void matmul_columns(int vecs, float *c, long long ldc, strided a, const float *b,
                           long long ldb, int m, int k, int accumulate) {
#define BLOCKS_OF(rows)                                                   \
  for (; m >= rows; m -= rows, a.data += rows * a.row, c += rows * ldc) { \
    matmul_block(rows, vecs, c, ldc, a, b, ldb, k, accumulate);           \
  }
  BLOCKS_OF(BLOCK_ROWS);
  BLOCKS_OF(4);
  BLOCKS_OF(2);
  BLOCKS_OF(1);
#undef BLOCKS_OF
}

static void matmul(float *c, long long ldc, const float *a, long long a_row, long long a_col,
                   const float *b, long long ldb, int m, int n, int k, int accumulate) {
  strided left = {a, a_row, a_col};
  int wide = BLOCK_VECS * VEC_LANES, end = padded(n), j = 0;
  for (; j + wide <= end; j += wide)
    matmul_columns(BLOCK_VECS, c + j, ldc, left, b + j, ldb, m, k, accumulate);
  for (; j < end; j += VEC_LANES) matmul_columns(1, c + j, ldc, left, b + j, ldb, m, k, accumulate);
}
