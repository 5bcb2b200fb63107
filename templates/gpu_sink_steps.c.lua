% -- The steps of a GPU plan that end with gradients of a sink's parameters.
% local params, score = require "params", require "score"
% local sm90 = spec.target == "sm90"

  sink_args sink;
  sink.batch = (int)in->batch;
  sink.heads_q = (int)in->heads_q;
  sink.seqlen_q = (int)in->seqlen_q;
  sink.seqlen_k = (int)in->seqlen_k;
  set_parameters(&sink.p, in);
  sink.lse = in->lse;
  sink.d = d;
  sink.dsink = dsink;
  long long elements = 1;
% for _, slot in ipairs(score.graded) do
%   local of = params.slots[slot + 1]
%   local count = of.declared.size and string.format("in->params[%d].length", slot)
%       or of.declared.per and "in->heads_q" or "1"
  sink.gradients.${of.field} = in->params[${slot}].grad;
  elements = ${count} > elements ? ${count} : elements;
% end
% for _, entry in ipairs { { "sink", "heads" }, { "sink_gradients", "(elements + 127) / 128" } } do
%   if sm90 then
  fa_step *${entry[1]}_step = add_step(
      out, "${spec.name}_${entry[1]}",
      ${entry[2]}, 128, sizeof(sink_args));
  *(sink_args *)${entry[1]}_step->args = sink;
%   else
  sink_args *${entry[1]}_block = add_step(
      out, "${spec.name}_${entry[1]}",
      ${entry[2]}, 0, sizeof(sink_args));
  *${entry[1]}_block = sink;
  out->steps[out->num_steps - 1].block[0] = 128;
%   end
% end
