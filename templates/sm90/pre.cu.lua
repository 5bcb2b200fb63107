% -- Preprocess of backward, emitted alone: the first step of a backward plan.
% include "sm90/prelude_bwd.cu.lua"

% include "sm90/preprocess.cu.lua"
