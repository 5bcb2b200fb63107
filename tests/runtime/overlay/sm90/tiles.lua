-- As sm80: what differs is how the runtime compiles and launches.
return require "sm80.tiles"
