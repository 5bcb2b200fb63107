% -- The last steps of backward: gradients of parameters from the parts that main has left.
% local score, text, names = require "score", require "expr_text", require "cpu.names"
% local gradients = require "cpu.gradients"
% if score.sink then
/* The gradient of each row's logit, summed over the rows of a head: -exp(logit - LSE) * D.
 *
 * Grid: heads_q x batch. No scratch. */
void ${spec.name}_sink(
    const void *args, const fa_cpu_block *block) {
  const gradient_args *a = args;
  const fa_cpu_ops *ops = block->ops;
  const long long head = block->x, batch = block->y;
  const long long row = (batch * a->heads_q + head) * a->seqlen_q;
  ${text.wrap("const float logit = " .. text.inline(score.sink, names) .. ";")}
  double sum = 0.0;
  for (long long i = 0; i < a->seqlen_q; ++i)
    if (a->lse[row + i] != MINUS_INFINITY)
      sum -= ops->exp(logit - a->lse[row + i]) * a->d[row + i];
  a->dsink[batch * a->heads_q + head] = (float)sum;
}

% end
% local parts = false
% for _, slot in ipairs(score.graded) do parts = parts or gradients.sum(slot).by_scores end
% if parts then
static double sum_of(const float *parts, long long outer, long long outer_stride, long long inner,
    long long inner_stride) {
  double sum = 0.0;
  for (long long i = 0; i < outer; ++i)
    for (long long j = 0; j < inner; ++j)
      sum += parts[i * outer_stride + j * inner_stride];
  return sum;
}

% end
enum { ELEMENTS = 256 }; /* of a gradient that one block sums */

% for _, slot in ipairs(score.graded) do
%   local sum = gradients.sum(slot)
%   local ops = sum.needs_ops and "const fa_cpu_ops *ops, " or ""
/* The gradient of ${sum.name}, ELEMENTS of it from `first` on. */
static void sum_${sum.field}(const gradient_args *a, ${ops}long long first) {
  float *out = a->out.${sum.field};
  const long long past = min(first + ELEMENTS, ${sum.elements});
%   if sum.by_scores then
%     local all = table.concat({ sum.outer, sum.inner, sum.first }, " ")
%     if all:find "key_tiles" or all:find "blocks" then
  const long long key_tiles = (a->seqlen_k + KEYS - 1) / KEYS;
%     end
%     if all:find "blocks" then
  const long long blocks = a->batch * a->heads_kv * key_tiles;
%     end
  const float *parts = a->parts.${sum.field};
%     local first = sum.first == "0" and "parts" or "parts + " .. sum.first
%     local call = "out[e] = (float)sum_of(" .. first .. ", " .. sum.outer .. ", "
%         .. sum.outer_stride .. ", " .. sum.inner .. ", " .. sum.inner_stride .. ");"
  for (long long e = first; e < past; ++e)
    ${text.wrap(call)}
%   else
  for (long long e = first; e < past; ++e)
    out[e] = 0.0f;
%   end
%   if #sum.of_sink > 0 then
  for (long long batch = 0; batch < a->batch; ++batch) {
    for (long long head = 0; head < a->heads_q; ++head) {
      const float dsink = a->dsink[batch * a->heads_q + head];
%     for i, g in ipairs(sum.of_sink) do
      ${text.wrap("const long long at_" .. i .. " = " .. g.index .. ";")}
      if (at_${i} >= first && at_${i} < past)
        ${text.wrap("out[at_" .. i .. "] += dsink * " .. g.derivative .. ";")}
%     end
    }
  }
%   end
}

% end
/* Gradients of parameters. Grid: the most elements that one has, by ELEMENTS, x parameters. No
 * scratch. */
void ${spec.name}_gradients(
    const void *args, const fa_cpu_block *block) {
  const gradient_args *a = args;
% for i, slot in ipairs(score.graded) do
%   local sum = gradients.sum(slot)
  if (block->y == ${i - 1} && a->out.${sum.field})
    sum_${sum.field}(a, ${sum.needs_ops and "block->ops, " or ""}block->x * ELEMENTS);
% end
}
