% include "sm80/fwd.cu.lua"
