% -- The parameters of the variants as kernels and plans hold them. integer: the C type of an integer.
% local function parameters(integer)
%   local params = require "params"
%   local rows = { head = "heads_q", q = "batch x seqlen_q", k = "batch x seqlen_k" }
%   for _, slot in ipairs(params.slots) do
%     local d = slot.declared
%     local shape = rows[d.per] or ""
%     if d.size then shape = shape .. (d.per and " x " or "") .. d.size end
%     local element = d.kind == "f32" and "float" or "int"
%     if d.is_table then
const ${element} *${slot.field}; /* ${shape} */
%     else
${d.kind == "f32" and "float" or integer} ${slot.field};
%     end
%     if d.size then
${integer} ${slot.field}_length; /* ${d.size} */
%     end
%   end
% end
% if #require("params").slots > 0 then

/* The parameters of the variants. */
typedef struct parameters {
  ${capture(parameters, spec.target == "cpu" and "long long" or "int")}
} parameters;
% end
