-- sm90/candidate.lua: tiles to be tried in place of those that the tables choose: none. The overlays
-- that tests/bench/tune.py writes have their own file of this name.
--   forward    entries, as tiles.lua describes them
--   backward   tiles, as tiles_bwd.lua describes them

return {}
