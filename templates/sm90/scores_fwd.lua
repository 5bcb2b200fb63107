-- sm90/scores_fwd.lua: what sm90 forward calls the things that masks and scores speak of, and what it
-- says of scores once for a row of a key tile.

local mask, score, text = require "mask", require "score", require "expr_text"

local key_tile = mask.searched "k" and "beyond_gap(key_tile, work)" or "key_tile"

local scores = {
  names = require("gpu_names")("args.", { q = "q_position", k = "k_position", s = "s[i]",
    scale = "args.softmax_scale", step = "(float)(i / 4 * 8 + i % 2)" }),
  key_first = key_tile .. " * KEYS + thread_column", -- the lane's first key of a tile
}

-- of_rows: terms as text.along gives them, and their texts joined.
local uniforms, names = score.uniforms(scores.names, mask.pairwise)
scores.uniforms = uniforms
scores.of_rows, scores.position = text.beginnings({ score.composed }, names, "i / 2 % 2")
scores.of_rows.text = ""
for _, term in ipairs(scores.of_rows) do
  scores.of_rows.text = scores.of_rows.text .. " " .. term[3]
end

scores.text = score.identity and "" or score.text(scores.position) .. scores.of_rows.text

-- What the scores in registers still have to be multiplied by; nil for 1.
scores.factor = score.identity and scores.names.scale
    or score.factor and text.inline(score.factor, scores.names) or nil

return scores
