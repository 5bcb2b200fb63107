% include "sm80/steps.c.lua"
