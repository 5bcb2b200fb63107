% -- The last entry of backward where parameters have gradients: sums the parts of each.
% local score, params, text = require "score", require "params", require "expr_text"
% local gradients = require "gpu_gradients"
% local names = require "gpu_names"("args.", { q = "", k = "", s = "" })
% -- The parts of a read, `part` the number of one: how many there are, and where the element lies.
% local function parts_of(read)
%   local copies = gradients.copies(read, "args." .. read.blocks)
%   if read.kind == "row" or read.kind == "key" then
%     local length = read.kind == "row" and "args.seqlen_q" or "args.seqlen_k"
%     return "args.heads_q", string.format("(element / %s * args.heads_q + part) * %s + element %% %s",
%       length, length, length)
%   elseif not read.per_head then
%     return "args.batch * args.heads_q * " .. copies, read.length and "part * " .. read.length .. " + element" or "part"
%   end
%   local head = read.length and "element / " .. read.length or "element"
%   local place = string.format("(part / copies * args.heads_q + %s) * copies + part %% copies", head)
%   if read.length then
%     place = string.format("(%s) * %s + element %% %s", place, read.length, read.length)
%   end
%   return "args.batch * copies", place, copies
% end
% local places = {
%   { "batch", "const int batch = n / args.heads_q;" },
%   { "head", "const int head = n % args.heads_q;" },
% }
% -- What the logit of a head, the n-th, adds to an element.
% local function add_logit(g, of)
%   local d, length = of.declared, "args.p." .. of.field .. "_length"
%   local index = d.per and "head" or "0"
%   if d.size then
%     index = string.format("within(%s, %s)", text.inline(g.node[1], names), length)
%     if d.per then index = string.format("head * %s + %s", length, index) end
%   end
%   local derivative = text.inline(g.derivative, names)
${score.declared(places, index, derivative)}
${text.wrap("if (" .. index .. " == element)")}
  ${text.wrap("sum = multiply_add(args.dsink[n], " .. derivative .. ", sum);")}
% end
/* Gradients of parameters: 32 elements of each a block, of which each warp sums a share of the
 * parts. Grid: the most elements that one has, by 32, all in x. */
extern "C" __global__ void __launch_bounds__(256)
${spec.name}_gradients(const __grid_constant__ gradient_args args) {
  enum { WARPS = 8 };
  __shared__ float sums[WARPS][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long element = blockIdx.x * 32LL + lane;
% for _, slot in ipairs(score.graded) do
%   local of = params.slots[slot + 1]
  {
    const long long count = ${gradients.elements(slot, "args.")};
    float sum = 0.0f;
    if (args.gradients.${of.field} && element < count) {
%   for _, read in ipairs(gradients.reads) do
%     if read.slot == slot then
%       local parts, place, copies = parts_of(read)
%       if copies then
      const long long copies = ${copies}; /* in one head */
%       end
      ${text.wrap("for (long long part = warp; part < " .. parts .. "; part += WARPS)")}
        ${text.wrap("sum = add(sum, args.parts." .. read.name .. "[" .. place .. "]);")}
%     end
%   end
%   for _, g in ipairs(score.sink_gradients) do
%     if g.slot == slot then
      for (int n = warp; n < args.batch * args.heads_q; n += WARPS) {
        ${capture(add_logit, g, of)}
      }
%     end
%   end
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && args.gradients.${of.field} && element < count) {
      for (int other = 1; other < WARPS; ++other)
        sum = add(sum, sums[other][lane]);
      args.gradients.${of.field}[element] = sum;
    }
    __syncthreads();
  }
% end
}
