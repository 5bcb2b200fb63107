% -- The conversion of dQ in a launch of its own, the last step of backward.
/* ---- Conversion --------------------------------------------------------------------------------
% if tiles.divided then
 * Grid: blocks for dK and dV, if there are sums of them, then query tiles x heads_q x batch, all in
 * x.
% else
 * Grid: query tiles x heads_q x batch, all in x.
% end
 */
% if tiles.divided then

/* dK or dV from sums of parts: KEYS rows of all of its rows, by 256 threads. */
template <int columns>
DEVICE void round_rows(const tensor &to, const float *sum, const convert_args &args,
                       long long row_first, long long rows) {
  for (int i = threadIdx.x; i < KEYS * (columns / 8); i += 256) {
    const int within = i / (columns / 8), column = (i - within * (columns / 8)) * 8;
    const long long row = row_first + within, any_head = row / args.seqlen_k;
    if (row >= rows)
      continue;
    const float4 *from = (const float4 *)(sum + row * columns + column);
    const float4 a = load_coherent(from), b = load_coherent(from + 1);
    element *to_row = rows_of(to, any_head / args.heads_kv, any_head % args.heads_kv) +
                      (row - any_head * args.seqlen_k) * to.stride_seq;
    *(uint4 *)(to_row + column) =
        make_uint4(pack(a.x, a.y), pack(a.z, a.w), pack(b.x, b.y), pack(b.z, b.w));
  }
}

% end
extern "C" __global__ void __launch_bounds__(256)
${spec.name}_convert(
    const __grid_constant__ convert_args args) {
% if tiles.wide then
  __shared__ __align__(16) unsigned char tile[QUERIES * PITCH];
% else
  __shared__ __align__(16) unsigned tile[QUERIES * PITCH];
  float4 sums[SUMS];
% end
% if tiles.divided then
  if (blockIdx.x < args.key_blocks) {
    launch_wait(); /* for the sums */
    const long long row_first = (long long)blockIdx.x * KEYS;
    round_rows<DIM_QK>(args.dk, args.dk_sum, args, row_first, args.key_rows);
    round_rows<DIM_V>(args.dv, args.dv_sum, args, row_first, args.key_rows);
    return;
  }
% end
  /* Last tiles first: they are still in L2. */
  const unsigned block = gridDim.x - 1 - blockIdx.x;
  const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;
  const int any_head = block / query_tiles;

  launch_wait(); /* for the sums */
% if tiles.wide then
  stage_sums(tile, args.dq_sum + (long long)block * DQ_FLOATS, args.softmax_scale, threadIdx.x);
% else
  load_sums(sums, own_sums(args.dq_sum, block, threadIdx.x));
  stage_sums(tile, sums, args.softmax_scale, threadIdx.x);
% end
  __syncthreads();
  store_rows_of_dq(args.dq, any_head % args.heads_q, any_head / args.heads_q,
                   (block - any_head * query_tiles) * QUERIES, args.seqlen_q, tile, threadIdx.x);
}
