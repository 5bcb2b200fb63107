-- gpu_gradients.lua: gradients of parameters that scores read, on GPU targets. Beside the main kernel,
-- another forms S and dP again and sums what pairs add to each gradient: a block stays on tiles of one
-- axis, of one query head, while the other axis passes by, and sums in an order of its own into its
-- part of the workspace; a last step sums the parts. Nothing is added by two blocks, so that there is
-- nothing to be done for `det`, and the fast kernels know nothing of all this.
--
-- What a parameter is read at decides how the pairs of a tile are summed, its kind:
--   sum       a scalar, or one number a head: in a register
--   row, key  per = "q" or "k": by rows or columns of the tile, for a block that stays on these
--   diagonal  a table read at +-(at.k - at.q) + what is the same for all pairs, such as a learned
--             bias: along diagonals, each of which belongs to one element; all beyond an end of the
--             table belongs to that end, which is kept in a register
--   distance  a table read at any other function of at.k - at.q: along diagonals
--   pair      any other table: pair by pair
-- Of the last two, several sums of a warp may belong to one element, so that warps have tables of
-- their own.

local expr, linear, simplify = require "expr", require "linear", require "simplify"
local mask, score, params = require "mask", require "score", require "params"
local text = require "expr_text"

local gradients = { names = require "gpu_names"("args.", {
  q = "q_position", k = "k_position", s = "score", seqlen_k = "args.seqlen_k",
}) }

local q, k = expr.symbol "q", expr.symbol "k"

-- ---- Kinds ----------------------------------------------------------------------------------------

local function by_distance(n)
  local sum = linear.sum(n)
  if sum then return sum.q + sum.k == 0 end
  if not n[1] then return false end
  for _, child in ipairs(n) do
    if not by_distance(child) then return false end
  end
  return true
end

local function kind_of(n)
  local per, index = params.slots[n.slot + 1].declared.per, n[1]
  if not index then return ({ q = "row", k = "key" })[per] or "sum" end
  local sum = linear.sum(index)
  if sum and sum.q * sum.k == -1 then return "diagonal", sum.k end
  return by_distance(index) and "distance" or "pair"
end

local function with_positions(n, at_q, at_k)
  return simplify.graph(expr.substitute(n, { [q.id] = at_q, [k.id] = at_k }))
end

-- What is read, each with the C name of its sum.
local reads, taken = {}, {}
for _, g in ipairs(score.gradients) do
  local slot = params.slots[g.slot + 1]
  local kind, sign = kind_of(g.node)
  local read = { slot = g.slot, kind = kind, name = "d_" .. slot.field,
    derivative = g.derivative }
  local number = 1
  while taken[read.name] do
    number = number + 1
    read.name = "d_" .. slot.field .. "_" .. number
  end
  if g.derivative.op ~= "const" or g.derivative.value ~= 0 then
    taken[read.name] = true
    reads[#reads + 1] = read
  end
  read.per_head = slot.declared.per == "head"
  read.per_warp = kind == "distance" or kind == "pair"
  read.length = slot.declared.size and "args.p." .. slot.field .. "_length"
  if kind == "diagonal" then
    read.sign, read.index = sign > 0 and "+" or "-", with_positions(g.node[1], expr.const(0), expr.const(0))
  elseif kind == "distance" then -- of the symbol that may be negative
    read.index = with_positions(g.node[1], expr.const(0), q)
  elseif kind == "pair" then
    read.index = g.node[1]
  end
end
gradients.reads = reads

-- ---- Walks ----------------------------------------------------------------------------------------

-- The axis on which blocks stay while a kind is summed; a sum is made beside the others.
local fixed_of = { row = "q", key = "k", diagonal = "k", distance = "k", pair = "k" }
for _, read in ipairs(reads) do
  fixed_of.sum = fixed_of.sum == "k" and "k" or fixed_of[read.kind]
end
fixed_of.sum = fixed_of.sum or "k"

local walks = {}
for _, fixed in ipairs { "q", "k" } do
  local walk = { fixed = fixed, reads = {} }
  walk.entry = fixed == "q" and "gradients_by_queries" or "gradients_by_keys"
  walk.blocks = fixed == "q" and "query_blocks" or "key_blocks"
  for _, read in ipairs(reads) do
    if fixed_of[read.kind] == fixed then
      read.blocks = walk.blocks
      walk.reads[#walk.reads + 1] = read
    end
  end
  walk.searched = fixed == "k" and mask.searched "q"
  if #walk.reads > 0 then walks[#walks + 1] = walk end
end
gradients.walks = walks

-- ---- Tiles ----------------------------------------------------------------------------------------

-- A warp has `part` rows and columns of S; two warps share the queries of a tile, warps / 2 its keys.
-- Keys are what most walks stay on: 128 of them bring half the loads from L2 that 64 need.
local shapes = {
  { part = 32, warps = 8 }, { part = 32, warps = 6 }, { part = 32, warps = 4 }, { part = 16, warps = 4 },
}

-- Bytes of the pairs of one tile that are kept to be summed.
local function pair_bytes(shape)
  return 4 * 2 * shape.part * (shape.warps // 2 * shape.part + 8)
end

-- Bytes of tiles in shared memory, as gpu_gradients_tiles.cu.lua has them: of Q and dO, of K and V.
local function tile_bytes(shape)
  local function row_bytes(dim) return (dim + 15) // 16 * 32 + 16 end
  local of_both = row_bytes(spec.dim_qk) + row_bytes(spec.dim_v)
  return 2 * shape.part * of_both, shape.warps // 2 * shape.part * of_both
end

-- Those of a block, whose pairs stand where Q and dO stood.
local function shared_bytes(shape, kept)
  local queries, keys = tile_bytes(shape)
  return math.max(queries, kept * pair_bytes(shape)) + keys
end

-- How many such a walk keeps; notes where each read has its own.
local function count_kept(walk)
  local kept = 0
  for _, read in ipairs(walk.reads) do
    read.pairs = kept == 0 and "PAIRS" or string.format("PAIRS + %d * PAIR_BYTES", kept)
    kept = kept + (read.kind == "pair" and 2 or read.index and 1 or 0) -- with elements
  end
  return kept
end

local most_kept = 0
for _, walk in ipairs(walks) do
  walk.kept = count_kept(walk)
  most_kept = math.max(most_kept, walk.kept)
end
gradients.most_kept = most_kept

-- What a block may have, but for the few bytes of its sums.
local most_bytes = 1024 * (({ [80] = 161, [90] = 225, [100] = 225 })[spec.arch] or 97)

local shape
for _, candidate in ipairs(shapes) do
  local fits = shared_bytes(candidate, most_kept) <= most_bytes
  shape = shape or fits and candidate
end
if not shape then
  local least = shapes[#shapes]
  local _, keys = tile_bytes(least)
  unsupported(string.format("target %s: a block of a %s kernel with gradients keeps the pairs of at most "
    .. "%d tables of these; %d", spec.target, spec.pass,
    (most_bytes - keys) // pair_bytes(least), most_kept))
end
local warps = shape.warps
gradients.part, gradients.warps = shape.part, warps
gradients.queries, gradients.keys = 2 * shape.part, warps // 2 * shape.part

gradients.shared_bytes = shared_bytes(shape, most_kept)

local registers = 128 -- of a thread
gradients.blocks_resident = math.min(65536 // (32 * warps * registers), most_bytes // gradients.shared_bytes)

-- The next tile is loaded as soon as the last has been read, but where pairs stand in its place: when
-- that is not so, as C.
for _, walk in ipairs(walks) do
  for _, read in ipairs(walk.reads) do
    if read.per_warp then
      walk.early = "false"
    elseif read.index and walk.early ~= "false" then
      walk.early = (walk.early and walk.early .. " && " or "") .. "!" .. read.name .. ".spread"
    end
  end
end

-- Blocks that share the tiles of a head, at most: a block's part of a table has as many elements as the
-- head's table, or all of them for each warp. So few keep parts from growing with the sequence.
gradients.most_blocks, gradients.few_blocks = 64, 16

-- Elements that a block of a walk leaves in parts of tables, as C of a plan.
function gradients.part_length(walk)
  local lengths = {}
  for _, read in ipairs(walk.reads) do
    if read.length then
      lengths[#lengths + 1] = (read.per_warp and warps .. " * " or "") .. gradients.row_length(read)
    end
  end
  return lengths[1] and table.concat(lengths, " + ") or "0"
end

-- Elements of a table, or of the row of it that a head has, as C of a plan.
function gradients.row_length(read)
  local length = string.format("in->params[%d].length", read.slot)
  return read.per_head and "(" .. length .. " / (in->heads_q > 0 ? in->heads_q : 1))" or length
end

-- How many elements the gradient of a slot has, as C; args: what stands before lengths.
function gradients.elements(slot, args)
  local d = params.slots[slot + 1].declared
  local length = args .. "p." .. params.slots[slot + 1].field .. "_length"
  if d.size then return d.per and "(long long)" .. args .. "heads_q * " .. length or length end
  if not d.per then return "1" end
  if d.per == "head" then return args .. "heads_q" end
  return "(long long)" .. args .. "batch * " .. args .. "seqlen_" .. d.per
end

-- Parts of a read in one head, as C; blocks: how many share the head.
function gradients.copies(read, blocks)
  return read.per_warp and warps .. " * " .. blocks or blocks
end

-- ---- Text -----------------------------------------------------------------------------------------

-- Of a walk: uniforms, the C lines of terms that are the same for all pairs; names that know them; pair,
-- the lines that make `score` of the old one, and before that the derivatives and elements that are
-- formed of the old one; predicate, the mask's.
local function write(walk)
  local roots = { score.composed }
  roots[#roots + 1] = mask.pairwise
  for _, read in ipairs(walk.reads) do
    roots[#roots + 1] = read.derivative
    roots[#roots + 1] = read.index
  end
  walk.uniforms, walk.names = text.uniforms(roots, gradients.names)
  walk.predicate = mask.predicate(walk.names)

  local wanted, formats = {}, {}
  local function want(node, format, ...)
    wanted[#wanted + 1], formats[#formats + 1] = node, string.format(format, ...)
  end
  for _, read in ipairs(walk.reads) do
    read.constant = read.derivative.op == "const"
    walk.factors = walk.factors or not read.constant
    if not read.constant then want(read.derivative, "const float of_%s = %%s;", read.name) end
    if read.kind == "pair" then
      want(read.index, "const int at_%s = within(%%s, %s);", read.name, read.length)
    end
    walk.keeps = walk.keeps or read.index ~= nil -- pairs, until they are summed
  end
  want(score.composed, "score = %%s;")
  local texts, shared = text.together(wanted, walk.names)
  local lines = { shared ~= "" and shared or nil }
  for i, format in ipairs(formats) do
    lines[#lines + 1] = text.wrap(string.format(format, texts[i]))
  end
  walk.pair = table.concat(lines, "\n")
end

-- The tiles that a walk visits, as mask.runs gives them.
local function runs_of(walk)
  local names = gradients.names
  if walk.fixed == "q" then
    return mask.runs { walked = "k", fixed = "q", first = "q_first", last = "q_last", tile = gradients.keys,
      tiles = "key_tiles", length = "args.seqlen_k", integer = "int", cut = true, names = names }
  end
  return mask.runs { walked = "q", fixed = "k", first = "k_first", last = "k_last",
    tile = gradients.queries,
    tiles = "query_tiles", length = "args.seqlen_q", shift = "shift", integer = "int",
    inside = "k_last < args.seqlen_k", names = names,
    searched = walk.searched and "args.searched[batch * key_tiles + key_tile]" }
end

for _, walk in ipairs(walks) do
  write(walk)
  walk.runs = runs_of(walk)
  walk.begin, walk.finish = walk.runs.runs[1].from, walk.runs.runs[#walk.runs.runs].to
  for _, run in ipairs(walk.runs.runs) do walk.masked = walk.masked or run.masked end
end

-- What a pair adds to the gradient of a read, as C, of what it adds to that of its score.
function gradients.value(walk, read)
  local d = read.derivative
  if not read.constant then
    return string.format("counts ? multiply(gradient, of_%s) : 0.0f", read.name)
  end
  return d.value == 1 and "gradient" or string.format("multiply(gradient, %s)", text.inline(d, walk.names))
end

-- The element of a table that the pairs on the diagonal of a tile have, were the table without ends.
function gradients.element_of_diagonal(walk, read)
  return string.format("%s %s (k_first - q_first)", text.inline(read.index, walk.names, 5), read.sign)
end

-- The element of all pairs of a distance.
function gradients.element_of_distance(walk, read)
  local names = {}
  for _, name in ipairs(sorted(walk.names)) do names[name] = walk.names[name] end
  names.q = "distance"
  return string.format("within(%s, %s)", text.inline(read.index, names), read.length)
end

-- Whether the text for a tile names the position of a query, "q", or a key, "k".
function gradients.names_position(walk, axis, masked)
  for _, read in ipairs(walk.reads) do
    if read.kind == "diagonal" or read.kind == "distance" then return true end
  end
  return text.mentions(walk.pair .. (masked and walk.predicate or ""), axis .. "_position")
end

-- Whether lines before the tiles name a variable, such as "q_last"; they end with the bound of the tiles.
function gradients.setup_mentions(walk, name)
  return text.mentions(walk.runs.setup .. " " .. walk.finish, name)
end

return gradients
