% -- The conversion of dQ, the last step of backward.
/* ---- Conversion --------------------------------------------------------------------------------
 * dQ = softmax_scale * its sum, rounded, from the order of the accumulators to rows.
 *
 * Grid: query tiles x heads_q x batch, all in x.
 */
% if tiles.wide then
extern "C" __global__ void __launch_bounds__(256)
${spec.name}_convert(
    const __grid_constant__ convert_args args) {
  enum { PITCH = QK_CHUNKS * CHUNK_ROW + 16 /* bytes a row: rows then start in different banks */ };
  __shared__ __align__(16) unsigned char tile[QUERIES * PITCH];
  /* Last tiles first: they are still in L2. */
  const unsigned block = gridDim.x - 1 - blockIdx.x;
  const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;
  const int any_head = block / query_tiles;
  const int row_first = (block - any_head * query_tiles) * QUERIES;
  const int head = any_head % args.heads_q, batch = any_head / args.heads_q;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float4 *sums = (const float4 *)(args.dq_sum + (long long)block * DQ_FLOATS);
  const float scale = args.softmax_scale;

  launch_wait(); /* for the sums */
  for (int chunk = warp / 4; chunk < QK_CHUNKS; chunk += 2) {
    const float4 *from = sums + chunk * (16 * QUERIES) + threadIdx.x % 128;
    const unsigned to = shared_address(tile) + (lane / 16 * 8 + lane % 8) * PITCH +
                        chunk * CHUNK_ROW + warp % 4 * 32 + lane / 8 % 2 * 16;
#pragma unroll
    for (int j = 0; j < QUERIES / 8; j += 2) {
      const float4 a = from[j * 128], b = from[(j + 1) * 128];
      store_transposed_matrices(to + j * 8 * PITCH,
                                pack(multiply(a.x, scale), multiply(a.y, scale)),
                                pack(multiply(a.z, scale), multiply(a.w, scale)),
                                pack(multiply(b.x, scale), multiply(b.y, scale)),
                                pack(multiply(b.z, scale), multiply(b.w, scale)));
    }
  }
  __syncthreads();

  element *dq = rows_of(args.dq, batch, head) + row_first * args.dq.stride_seq;
  const int rows = min(QUERIES, args.seqlen_q - row_first);
  for (int i = threadIdx.x; i < rows * (DIM_QK / 8); i += 256) {
    const int row = i / (DIM_QK / 8), unit = i - row * (DIM_QK / 8);
    *(uint4 *)(dq + row * args.dq.stride_seq + 8 * unit) =
        *(const uint4 *)(tile + row * PITCH + 16 * unit);
  }
}
% else
extern "C" __global__ void __launch_bounds__(256)
${spec.name}_convert(
    const __grid_constant__ convert_args args) {
  enum {
    COLUMNS = ${tiles.by_rows and "DQ_COLUMNS" or "2 * DQ_COLUMNS"},
    PITCH = COLUMNS / 2 + 4 /* words a row: rows then start in different banks */
  };
  __shared__ __align__(16) unsigned tile[QUERIES * PITCH];
  /* Last tiles first: they are still in L2. */
  const unsigned block = gridDim.x - 1 - blockIdx.x;
  const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;
  const int any_head = block / query_tiles;
  const int row_first = (block - any_head * query_tiles) * QUERIES;
  const int head = any_head % args.heads_q, batch = any_head / args.heads_q;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
% if tiles.by_rows then
  unsigned *to = tile + (warp * 16 + lane / 4) * PITCH + lane % 4;
% else
  unsigned *to = tile + (warp % 4 * 16 + lane / 4) * PITCH + warp / 4 * DQ_COLUMNS / 2 + lane % 4;
% end
  const float4 *from = (const float4 *)(args.dq_sum + (long long)block * DQ_FLOATS) +
                       warp * (DQ_PART / 16) + lane;
  const float scale = args.softmax_scale;

  launch_wait(); /* for the sums */
#pragma unroll
  for (int j = 0; j < DQ_COLUMNS / 8; ++j) {
    const float4 sum = from[j * 32];
    to[4 * j] = pack(multiply(sum.x, scale), multiply(sum.y, scale));
    to[4 * j + 8 * PITCH] = pack(multiply(sum.z, scale), multiply(sum.w, scale));
  }
  __syncthreads();

  element *dq = rows_of(args.dq, batch, head) + row_first * args.dq.stride_seq;
  const int rows = min(QUERIES, args.seqlen_q - row_first);
  for (int i = threadIdx.x; i < rows * (DIM_QK / 8); i += 256) {
    const int row = i / (DIM_QK / 8), unit = i - row * (DIM_QK / 8);
    *(uint4 *)(dq + row * args.dq.stride_seq + 8 * unit) =
        *(const uint4 *)(tile + row * PITCH + 4 * unit);
  }
}
% end
