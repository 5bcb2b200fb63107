% -- How a plan hands parameters on.
% local params = require "params"
% if #params.slots > 0 then

static void set_parameters(parameters *to, const fa_problem *in) {
%   for i, slot in ipairs(params.slots) do
%     local d, given = slot.declared, string.format("in->params[%d]", i - 1)
%     local cast = d.kind == "f32" and "(float)" or spec.target == "cpu" and "(long long)" or "(int)"
%     if d.is_table then
  to->${slot.field} = ${given}.data;
%     else
  to->${slot.field} = ${cast}${given}.value;
%     end
%     if d.size then
%       local length = given .. ".length" .. (d.per and " / (in->heads_q > 0 ? in->heads_q : 1)" or "")
%       if spec.target ~= "cpu" then length = "(int)(" .. length .. ")" end
  to->${slot.field}_length = ${length};
%     end
%   end
}
% end
