% -- Tiles in shared memory, and the products of two, for gpu_gradients.cu.lua.
% local most_kept = require("gpu_gradients").most_kept
% if spec.target == "sm90" then
%   include "gpu_mma.cu.lua"

% end
/* Rows of a tensor in shared memory, columns filled up with zeros to a multiple of 16. Rows are an
 * odd number of 16-byte chunks apart: ldmatrix, which reads one chunk of 8 rows at once, finds them
 * in different banks. */
template <int rows, int dim> struct operand {
  enum { STEPS = (dim + 15) / 16, ROW_BYTES = 32 * STEPS + 16, BYTES = rows * ROW_BYTES };

  /* Starts copying rows from `first` on; past `length` come zeros. */
  static MEMBER void load(unsigned to, const element *tensor, long long stride, int first,
                          int length) {
#pragma unroll 1 /* there are six such loops: unrolled they take an eighth of the time to compile */
    for (int i = threadIdx.x; i < rows * 2 * STEPS; i += THREADS) {
      const int row = i / (2 * STEPS), chunk = i % (2 * STEPS);
      const bool inside = first + row < length${(spec.dim_qk % 16 ~= 0 or spec.dim_v % 16 ~= 0) and " && chunk < dim / 8" or ""};
      copy_async(to + row * ROW_BYTES + 16 * chunk,
                 tensor + (inside ? (first + row) * stride + 8 * chunk : 0), inside ? 16 : 0);
    }
  }
};

/* c += a b^T for the warp's part of c: c[i] is its i-th 16 rows, c[i][j] 8 columns of them. */
template <int dim>
DEVICE void add_product(float (&c)[PART / 16][PART / 8][4], unsigned a, unsigned b) {
  enum { STEPS = operand<1, dim>::STEPS, ROW_BYTES = operand<1, dim>::ROW_BYTES };
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  a += (warp % 2 * PART + lane % 16) * ROW_BYTES + lane / 16 * 16;
  b += (warp / 2 * PART + lane % 8 + lane / 16 * 8) * ROW_BYTES + lane / 8 % 2 * 16;
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    unsigned left[PART / 16][4];
#pragma unroll
    for (int i = 0; i < PART / 16; ++i)
      load_matrices(left[i], a + 16 * i * ROW_BYTES + 32 * step);
#pragma unroll
    for (int j = 0; j < PART / 16; ++j) {
      unsigned right[4];
      load_matrices(right, b + 16 * j * ROW_BYTES + 32 * step);
#pragma unroll
      for (int i = 0; i < PART / 16; ++i) {
        mma(c[i][2 * j], left[i], right[0], right[1]);
        mma(c[i][2 * j + 1], left[i], right[2], right[3]);
      }
    }
  }
}

/* Where things are in shared memory. */
enum {
  Q_TILE = 0,
  DOUT_TILE = Q_TILE + operand<QUERIES, DIM_QK>::BYTES,
  QUERIES_END = DOUT_TILE + operand<QUERIES, DIM_V>::BYTES,
% if most_kept > 0 then
  PAIRS = Q_TILE, /* instead of Q and dO, when these have been read */
  PAIRS_END = PAIRS + ${most_kept} * PAIR_BYTES,
  K_TILE = QUERIES_END > PAIRS_END ? QUERIES_END : PAIRS_END,
% else
  K_TILE = QUERIES_END,
% end
  V_TILE = K_TILE + operand<KEYS, DIM_QK>::BYTES
};

/* One query head. */
struct head_at {
  const element *q, *k, *v, *dout;
  const float *lse, *d;
};

DEVICE const element *rows_of_head(const tensor &t, long long batch, long long head) {
  return t.data + batch * t.stride_batch + head * t.stride_head;
}

DEVICE head_at find_head(const gradient_args &args, int batch, int head) {
  const long long row = ((long long)batch * args.heads_q + head) * args.seqlen_q;
% local head_kv = spec.group > 1 and "head / GROUP" or "head"
  return {rows_of_head(args.q, batch, head), rows_of_head(args.k, batch, ${head_kv}),
          rows_of_head(args.v, batch, ${head_kv}), rows_of_head(args.dout, batch, head),
          args.lse + row, args.d + row};
}

/* Starts copying a tile of Q and dO, or of K and V. */
DEVICE void load_queries(const gradient_args &args, const head_at &at, unsigned shared, int tile) {
  operand<QUERIES, DIM_QK>::load(shared + Q_TILE, at.q, args.q.stride_seq, tile * QUERIES,
                                 args.seqlen_q);
  operand<QUERIES, DIM_V>::load(shared + DOUT_TILE, at.dout, args.dout.stride_seq, tile * QUERIES,
                                args.seqlen_q);
}

DEVICE void load_keys(const gradient_args &args, const head_at &at, unsigned shared, int tile) {
  operand<KEYS, DIM_QK>::load(shared + K_TILE, at.k, args.k.stride_seq, tile * KEYS,
                              args.seqlen_k);
  operand<KEYS, DIM_V>::load(shared + V_TILE, at.v, args.v.stride_seq, tile * KEYS, args.seqlen_k);
}

/* -LSE in exponents of 2, and D, of the rows of this lane, the first of which is `row`. */
DEVICE void load_statistics(float (&minus_lse)[PART / 16][2], float (&d)[PART / 16][2],
                            const head_at &at, int row, int length) {
#pragma unroll
  for (int i = 0; i < PART / 16; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int here = row + 16 * i + 8 * h;
      /* Rows that saw no key, whose LSE is -inf, and rows past the end get P = 0. */
      const unsigned lse = here < length ? __float_as_uint(at.lse[here]) : 0xff800000u;
      minus_lse[i][h] = __uint_as_float(lse);
      if (lse != 0xff800000u)
        minus_lse[i][h] = multiply(minus_lse[i][h], -LOG2_E);
      d[i][h] = here < length ? at.d[here] : 0.0f;
    }
  }
}
