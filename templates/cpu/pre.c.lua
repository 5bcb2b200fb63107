% -- Preprocess of backward on the processor, emitted alone: the first step of a backward plan.
% include "cpu/prelude.c.lua"
% include "cpu/preprocess.c.lua"
