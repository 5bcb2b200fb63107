% -- The gradients of a sink's logits on GPU targets, of which those of its parameters are made.
% local score, text = require "score", require "expr_text"
% local names = require "gpu_names"("args.", { q = "", k = "", s = "" })
% local places = {
%   { "batch", "const int batch = n / args.heads_q;" },
%   { "head", "const int head = n % args.heads_q;" },
% }
% local logit = text.inline(score.sink, names)
/* The gradient of each row's logit, -exp(logit - LSE) * D, summed over the rows of a head in one
 * order. Grid: heads_q x batch, all in x. */
extern "C" __global__ void __launch_bounds__(128)
${spec.name}_sink(const __grid_constant__ gradient_args args) {
  __shared__ float sums[4];
  const int n = blockIdx.x;
  ${score.declared(places, logit)}
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
