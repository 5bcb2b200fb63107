% -- The preprocess entry: part of a bwd kernel and all of a pre kernel.
/* Preprocess: D = rowsum(dO * O) - dLSE, and cleared memory for what backward sums up.
 *
 * Grid: query tiles, at least 1 where there are keys, x heads_q x batch. No scratch.
 */
void ${spec.name}_preprocess(
    const void *args, const fa_cpu_block *block) {
  const preprocess_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  const long long row_first = block->x * QUERIES, head = block->y, batch = block->z;
  const int rows = (int)max(0, min(QUERIES, a->seqlen_q - row_first));
  const long long row = (batch * a->heads_q + head) * a->seqlen_q + row_first;
  const element *o = rows_of(&a->o, batch, head) + row_first * a->o.stride_seq;
  const element *dout = rows_of(&a->dout, batch, head) + row_first * a->dout.stride_seq;

  ops->dot_rows_${spec.dtype}(a->d + row, o, a->o.stride_seq, dout, a->dout.stride_seq, rows,
      DIM_V);
  if (a->dlse)
    for (int i = 0; i < rows; ++i)
      a->d[row + i] -= a->dlse[row + i];

  ops->zero(a->dq_sum + row * LD_QK, (long long)sizeof(float) * rows * LD_QK);
% for _, field in ipairs(require("cpu.gradients").cleared) do
  ops->zero(a->${field} + row, (long long)sizeof(float) * rows);
% end
  if (block->x == 0 && head % GROUP == 0) {
    const long long tiles = (a->seqlen_k + KEYS - 1) / KEYS;
    const long long pair = batch * (a->heads_q / GROUP) + head / GROUP;
    ops->zero(a->progress + pair * tiles, (long long)sizeof(int) * tiles);
  }
}
