% -- The steps of a cpu plan that end with gradients of parameters.
% local params, score = require "params", require "score"
% local gradients = require "cpu.gradients"

  gradient_args gradient = {0};
  gradient.batch = in->batch;
  gradient.seqlen_q = in->seqlen_q;
  gradient.seqlen_k = in->seqlen_k;
  gradient.heads_q = in->heads_q;
  gradient.heads_kv = in->heads_kv;
  set_parameters(&gradient.p, in);
  gradient.parts = parts;
% for _, slot in ipairs(score.graded) do
  gradient.out.${params.slots[slot + 1].field} = in->params[${slot}].grad;
% end
% if score.sink then
  gradient.lse = in->lse;
  gradient.d = d;
  gradient.dsink = dsink;

  gradient_args *sink = add_step(
      out, "${spec.name}_sink",
      in->heads_q, in->batch, 1, 0, sizeof *sink);
  *sink = gradient;
% end

  long long elements = 1;
% for _, slot in ipairs(score.graded) do
%   local count = gradients.elements(slot)
  elements = ${count} > elements ? ${count} : elements;
% end
  gradient_args *last = add_step(
      out, "${spec.name}_gradients",
      (elements + 255) / 256, ${#score.graded}, 1, 0, sizeof *last);
  *last = gradient;
