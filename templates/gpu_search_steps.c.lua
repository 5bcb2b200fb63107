% -- The step of a GPU plan that looks for tiles; before it are fixed and walked, positions of a tile of
% -- each axis, and searched, its place in the workspace.
% local mask, params, linear = require "mask", require "params", require "linear"
% local forward = spec.pass == "fwd"
% local groups = linear.depends(mask.keep).head and "in->heads_q * in->batch" or "in->batch"
  search_args search;
  search.seqlen_q = (int)in->seqlen_q;
  search.seqlen_k = (int)in->seqlen_k;
  search.heads_q = (int)in->heads_q;
  search.fixed = (int)fixed;
  search.walked = (int)walked;
  search.searched = searched;
% if tiles.longest_first then
  search.order = order;
% end
% if #params.slots > 0 then
  set_parameters(&search.p, in);
% end
% local length = forward and "in->seqlen_q" or "in->seqlen_k"
% local blocks = string.format("(%s + fixed - 1) / fixed * %s", length, groups)
% if spec.target == "sm90" then
  fa_step *search_step = add_step(
      out, "${spec.name}_search",
      ${blocks}, 128, sizeof(search_args));
  *(search_args *)search_step->args = search;
%   if tiles.longest_first then
  fa_step *sort_step = add_step(
      out, "${spec.name}_sort",
      (key_tiles + 127) / 128 * in->batch, 128, sizeof(search_args));
  *(search_args *)sort_step->args = search;
%   end
% else
  search_args *search_block = add_step(
      out, "${spec.name}_search",
      ${blocks}, 0, sizeof(search_args));
  *search_block = search;
  out->steps[out->num_steps - 1].block[0] = 128;
% end
