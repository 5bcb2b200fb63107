% -- Gradients of a sink's parameters on GPU targets: the last two entries of backward.
% local score, params, text = require "score", require "params", require "expr_text"
% local names = require "gpu_names"("args.", { q = "", k = "", s = "" })
% local logit = text.inline(score.sink, names)
% local function declare(said)
%   if text.mentions(said, "head") then
const int head = n - batch * args.heads_q;
%   end
% end

/* ---- The sink ----------------------------------------------------------------------------------
 * The gradient of each row's logit is -exp(logit - LSE) * D: first the sum over the rows of a head,
 * then what parameters have of it, each sum in one order. */

/* Grid: heads_q x batch, all in x. */
extern "C" __global__ void __launch_bounds__(128)
${spec.name}_sink(const __grid_constant__ sink_args args) {
  __shared__ float sums[4];
  const int n = blockIdx.x, batch = n / args.heads_q;
  ${capture(declare, logit)}
  const float log2_e = 1.44269504f;
  ${text.wrap("const float exponent = multiply(" .. logit .. ", log2_e);")}
  const long long row = (long long)n * args.seqlen_q;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < args.seqlen_q; i += 128) {
    const float minus_lse = multiply(args.lse[row + i], -1.0f);
    if (__float_as_uint(minus_lse) != 0x7f800000u) /* a row that saw nothing has the LSE -inf */
      sum = multiply_add(exp2_approx(multiply_add(minus_lse, log2_e, exponent)),
                         multiply(args.d[row + i], -1.0f), sum);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
  if (threadIdx.x % 32 == 0)
    sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0)
    args.dsink[n] = add(add(sums[0], sums[1]), add(sums[2], sums[3]));
}

/* Grid: the most elements that a gradient has, by 128, all in x. */
extern "C" __global__ void __launch_bounds__(128)
${spec.name}_sink_gradients(const __grid_constant__ sink_args args) {
  const int element = blockIdx.x * 128 + threadIdx.x;
% for _, slot in ipairs(score.graded) do
%   local of = params.slots[slot + 1]
%   local d, length = of.declared, "args.p." .. of.field .. "_length"
%   local count = d.per and "args.heads_q" or "1"
%   if d.size then count = d.per and "args.heads_q * " .. length or length end
  if (args.gradients.${of.field} && element < ${count}) {
    float sum = 0.0f;
    for (int n = 0; n < args.batch * args.heads_q; ++n) {
%   for _, g in ipairs(score.sink_gradients) do
%     if g.slot == slot then
%       local index = d.per and "head" or "0"
%       if d.size then
%         index = string.format("within(%s, %s)", text.inline(g.node[1], names), length)
%         if d.per then index = string.format("head * %s + %s", length, index) end
%       end
%       local derivative = text.inline(g.derivative, names)
%       local said = index .. " " .. derivative
%       if said:find "batch" or said:find "head" then
      const int batch = n / args.heads_q;
%       end
      ${capture(declare, said)}
      ${text.wrap("if (" .. index .. " == element)")}
        ${text.wrap("sum = multiply_add(args.dsink[n], " .. derivative .. ", sum);")}
%     end
%   end
    }
    args.gradients.${of.field}[element] = sum;
  }
% end
}
