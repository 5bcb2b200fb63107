% -- The conversion of dQ in a launch of its own, the last step of backward.
/* ---- Conversion --------------------------------------------------------------------------------
 * Grid: query tiles x heads_q x batch, all in x.
 */
extern "C" __global__ void __launch_bounds__(256)
${spec.name}_convert(
    const __grid_constant__ convert_args args) {
% if tiles.wide then
  __shared__ __align__(16) unsigned char tile[QUERIES * PITCH];
% else
  __shared__ __align__(16) unsigned tile[QUERIES * PITCH];
  float4 sums[SUMS];
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
