% -- The search for tiles as ordinary C++, the mask pair by pair, and parameters: see search_on_cpu.sh.
% local mask, params = require "mask", require "params"
% local names = require "gpu_names"("args.", { q = "q_position", k = "k_position", s = "" })
#include "search_on_cpu.h"
% include "parameters.c.lua"
% include "gpu_search_args.cu.lua"
% include "gpu_functions.cu.lua"
% include "gpu_search.cu.lua"

static bool keep(const search_args &args, int batch, int head, int q_position, int k_position) {
  return ${mask.predicate(names)};
}

static void draw_parameters(search_args &args, tables &memory) {
  const bool ascending = draw(0, 1);
% for _, slot in ipairs(params.slots) do
%   local d, low, high = slot.declared, slot.declared.draw_low, slot.declared.draw_high
%   low = math.floor(d.min or low)
%   high = high == "seqlen_k" and "args.seqlen_k" or math.ceil(high)
%   local sizes = { head = "HEADS", q = "BATCH * args.seqlen_q", k = "BATCH * args.seqlen_k" }
%   if d.size then
  args.p.${slot.field}_length = draw(1, 12);
%     local count = (d.per and "HEADS * " or "") .. "args.p." .. slot.field .. "_length"
  args.p.${slot.field} = memory.draw(${count}, ${low}, ${high}, ascending);
%   elseif d.is_table then
  args.p.${slot.field} = memory.draw(${sizes[d.per]}, ${low}, ${high}, ascending);
%   else
  args.p.${slot.field} = draw(${low}, ${high});
%   end
% end
}

% local function yes(truth) return truth and "true" or "false" end
#include "judge.h"

static const test_case emitted = {
    "${spec.words}", ${yes(spec.pass == "fwd")},
    ${yes(require("linear").depends(mask.keep).head)}, ${yes(mask.open_end)},
    ${spec.name}_search, draw_parameters};

int main() { return run_case(emitted); }
