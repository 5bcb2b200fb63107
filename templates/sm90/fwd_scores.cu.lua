% -- What forward does to the scores of a key tile: scores.edit, for its steps.
% local mask, score, text = require "mask", require "score", require "expr_text"
% local scores = require "sm90.scores_fwd"
% local position = scores.position
%
% -- -inf in s where a mask that is looked for does not keep the pair. What it needs besides is found
% -- anew: kept, it would take registers that the loop over full tiles needs.
% local function hide_searched(names)
%   local form = mask.by_axis(names, "q")
%   local said = form.kept
%   for _, list in ipairs { form.of_row, form.of_column } do
%     for _, term in ipairs(list) do said = said .. " " .. term[3] end
%   end
const int thread_key = beyond_gap(key_tile, work) * KEYS + afresh(thread_column);
%   if text.mentions(said, "q_position") then
const int thread_q = afresh(work.row_first) + consumer * ROWS + shift + thread_row;
%   end
%   for _, name in ipairs { "head", "batch" } do
%     if text.mentions(said, name) then
const int ${name} = afresh(work.${name});
%     end
%   end
${text.of_rows(form.of_row, "const int q_position = thread_q + row * 8;")}
#pragma unroll
for (int column = 0; column < KEYS / 4; ++column) {
  const int k_position = thread_key + column / 2 * 8 + column % 2;
%   for _, term in ipairs(form.of_column) do
  ${text.wrap("const " .. term[1] .. " " .. term[2] .. " = " .. term[3] .. ";")}
%   end
#pragma unroll
  for (int row = 0; row < 2; ++row) {
%   if text.mentions(form.kept, "q_position") then
    const int q_position = thread_q + row * 8;
%   end
    ${text.wrap("if (!(" .. form.kept .. "))")}
      s[column / 2 * 4 + row * 2 + column % 2] = MINUS_INFINITY;
  }
}
% end
%
% -- The positions of pair i that some lines of C name.
% local function positions(lines)
%   if lines:find("k_position") then
const int k_position = ${scores.key_first} + i / 4 * 8 + i % 2;
%   end
%   if lines:find("q_position") then
const int q_position = thread_q + i / 2 % 2 * 8;
%   end
% end
% -- What the scores begin with in each of the lane's rows.
% local function begin_rows()
%   for _, term in ipairs(scores.of_rows) do
${term[1]} ${term[2]}[2];
%   end
#pragma unroll
for (int row = 0; row < 2; ++row) {
%   if scores.of_rows.text:find("q_position") then
  const int q_position = thread_q + row * 8;
%   end
%   if scores.of_rows.text:find("k_position") then
  const int k_position = ${scores.key_first};
%   end
%   for _, term in ipairs(scores.of_rows) do
  ${text.wrap(term[2] .. "[row] = " .. term[3] .. ";")}
%   end
}
% end
% -- Some lines for pairs i, four of one row, so that no row depends on another.
% local function of_four(lines)
#pragma unroll
for (int e = 0; e < 4; ++e) {
  const int i = four / 2 * 8 + four % 2 * 2 + e / 2 * 4 + e % 2;
  ${capture(positions, lines)}
  ${lines}
}
% end
% -- The scores of key_tile in s as the variants have them, -inf where the pair is not kept.
% function scores.edit(masked, scored)
%   local changed = not score.identity and not scored
%   local kept = masked and not mask.searched "k" and mask.predicate(masked)
%   local edits = (kept or "") .. (changed and score.text(position) or "")
%   if changed and #scores.of_rows > 0 then
${capture(begin_rows)}
%   end
%   local steps, finished = {}, position
%   if changed and not masked then steps, finished = score.inverses(position) end
%   if #steps > 0 then
#pragma unroll
for (int four = 0; four < KEYS / 8; ++four) {
%     for _, step in ipairs(steps) do
  float ${step[1]}[4];
  ${capture(of_four, text.wrap(step[1] .. "[e] = " .. step[2] .. ";"))}
  invert_four(${step[1]});
%     end
  ${capture(of_four, score.lines(finished))}
}
%   elseif kept or changed then
#pragma unroll
for (int i = 0; i < KEYS / 2; ++i) {
  ${capture(positions, edits)}
%     if changed then
  ${score.lines(position)}
%     end
%     if kept then
  ${text.wrap("if (!(" .. kept .. "))")}
    s[i] = MINUS_INFINITY;
%     end
}
%   end
%   if masked and mask.searched "k" then
${capture(hide_searched, masked)}
%   end
% end
