% -- Preprocess of backward, emitted alone: the first step of a backward plan.
% include "sm80/prelude.cu.lua"

% include "sm80/preprocess.cu.lua"
