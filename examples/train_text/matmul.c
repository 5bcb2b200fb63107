/* matmul.c: matrix products in plain C, laid out so that the compiler turns them into vector code.
   Blocks of both factors are copied into strips of the register tile's width first. */
#include "train_text.h"

#include <string.h>

enum {
  TILE_ROWS = 6, /* 6 x 16 sums fill 12 of 16 registers of 256 bits; the rest hold the factors */
  TILE_COLUMNS = 16,
  BLOCK_ROWS = 16 * TILE_ROWS,
  BLOCK_COLUMNS = 8 * TILE_COLUMNS,
  BLOCK_DEPTH = 256 /* the packed block of b, 128 KiB, stays in the second-level cache */
};

/* Compiled once for each of these processors; the loader picks. A sanitizer's runtime is not ready
   yet when it does, and only recent compilers know these names. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
#endif
#ifndef FOR_EACH_PROCESSOR
#define FOR_EACH_PROCESSOR
#endif

/* out = the product of one strip of a and one of b. The rows are six arrays, not one of two
   dimensions: gcc 12 keeps only the former in registers. */
FOR_EACH_PROCESSOR
static void tile_product(float *restrict out, const float *restrict a, const float *restrict b,
                         int64_t depth) {
  float row0[TILE_COLUMNS] = {0}, row1[TILE_COLUMNS] = {0}, row2[TILE_COLUMNS] = {0};
  float row3[TILE_COLUMNS] = {0}, row4[TILE_COLUMNS] = {0}, row5[TILE_COLUMNS] = {0};
  for (int64_t p = 0; p < depth; ++p, a += TILE_ROWS, b += TILE_COLUMNS) {
    for (int j = 0; j < TILE_COLUMNS; ++j) {
      row0[j] += a[0] * b[j];
      row1[j] += a[1] * b[j];
      row2[j] += a[2] * b[j];
      row3[j] += a[3] * b[j];
      row4[j] += a[4] * b[j];
      row5[j] += a[5] * b[j];
    }
  }
  for (int j = 0; j < TILE_COLUMNS; ++j) {
    out[j] = row0[j];
    out[1 * TILE_COLUMNS + j] = row1[j];
    out[2 * TILE_COLUMNS + j] = row2[j];
    out[3 * TILE_COLUMNS + j] = row3[j];
    out[4 * TILE_COLUMNS + j] = row4[j];
    out[5 * TILE_COLUMNS + j] = row5[j];
  }
}

/* One strip: `strip` lines of `depth` elements, element by element beside each other. Lines beyond
   `lines` are zero. The inner loop runs along whichever direction is dense in memory. */
static void pack_strip(float *restrict to, const float *restrict from, int64_t line_stride,
                       int64_t depth_stride, int64_t lines, int64_t depth, int64_t strip) {
  if (lines < strip) memset(to, 0, (size_t)(depth * strip) * sizeof *to);
  if (line_stride == 1 && lines == strip)
    for (int64_t p = 0; p < depth; ++p)
      for (int64_t line = 0; line < strip; ++line)
        to[p * strip + line] = from[p * depth_stride + line];
  else
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t p = 0; p < depth; ++p)
        to[p * strip + line] = from[line * line_stride + p * depth_stride];
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void pack(float *to, const float *from, int64_t line_stride, int64_t depth_stride,
                 int64_t count, int64_t depth, int64_t strip) {
  for (int64_t first = 0; first < count; first += strip)
    pack_strip(to + first * depth, from + first * line_stride, line_stride, depth_stride,
               least(count - first, strip), depth, strip);
}

typedef struct product {
  int64_t rows, columns, depth;
  matrix a, b;
  float *c;
  bool add;
  int64_t block_columns; /* blocks in a row of blocks */
} product;

/* Adds (or stores) the part of a tile that lies inside of c. */
static void tile_store(float *c, int64_t c_stride, const float *tile, int64_t rows, int64_t columns,
                       bool add) {
  for (int64_t i = 0; i < rows; ++i, c += c_stride, tile += TILE_COLUMNS) {
    if (add)
      for (int64_t j = 0; j < columns; ++j) c[j] += tile[j];
    else
      for (int64_t j = 0; j < columns; ++j) c[j] = tile[j];
  }
}

static void block_task(void *work, int64_t index) {
  static _Thread_local float packed_a[BLOCK_ROWS * BLOCK_DEPTH];
  static _Thread_local float packed_b[BLOCK_COLUMNS * BLOCK_DEPTH];
  const product *w = work;
  int64_t row = index / w->block_columns * BLOCK_ROWS;
  int64_t column = index % w->block_columns * BLOCK_COLUMNS;
  int64_t rows = least(w->rows - row, BLOCK_ROWS),
          columns = least(w->columns - column, BLOCK_COLUMNS);
  float tile[TILE_ROWS * TILE_COLUMNS];

  for (int64_t p = 0; p < w->depth; p += BLOCK_DEPTH) {
    int64_t depth = least(w->depth - p, BLOCK_DEPTH);
    pack(packed_a, w->a.data + row * w->a.row_stride + p * w->a.column_stride, w->a.row_stride,
         w->a.column_stride, rows, depth, TILE_ROWS);
    pack(packed_b, w->b.data + p * w->b.row_stride + column * w->b.column_stride,
         w->b.column_stride, w->b.row_stride, columns, depth, TILE_COLUMNS);
    for (int64_t j = 0; j < columns; j += TILE_COLUMNS) {
      for (int64_t i = 0; i < rows; i += TILE_ROWS) {
        tile_product(tile, packed_a + i * depth, packed_b + j * depth, depth);
        tile_store(w->c + (row + i) * w->columns + column + j, w->columns, tile,
                   least(rows - i, TILE_ROWS), least(columns - j, TILE_COLUMNS), w->add || p > 0);
      }
    }
  }
}

void matmul(pool *threads, int64_t rows, int64_t columns, int64_t depth, matrix a, matrix b,
            float *c, bool add) {
  product w = {rows, columns, depth, a, b, c, add, (columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS};
  int64_t block_rows = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  pool_run(threads, block_task, &w, block_rows * w.block_columns);
}
