% -- Gradients of parameters on GPU targets, the last entries of backward: see gpu_gradients.lua.
% local mask, score, text = require "mask", require "score", require "expr_text"
% local gradients = require "gpu_gradients"
% if #gradients.walks > 0 then

/* ---- Gradients of parameters that scores read --------------------------------------------------
 * S and dP are formed again, QUERIES x KEYS at a time, each warp a square of them. What a pair
 * adds to a gradient is P * (dP - D) times the derivative of its score. A block has tiles of one
 * axis, of one query head, and sums over the tiles of the other that the mask leaves, in one order,
 * into its part of the workspace. */
namespace gradients {

#define MEMBER __device__ __forceinline__
%   if spec.target == "sm80" then
#define LOG2_E 1.44269504f
%   end

enum {
  PART = ${gradients.part}, /* rows and columns of a warp */
  WARPS = ${gradients.warps},
  THREADS = 32 * WARPS,
  QUERIES = 2 * PART,
  KEYS = WARPS / 2 * PART,
  PITCH = KEYS + 8, /* floats from one row of pairs to the next */
  PAIR_BYTES = 4 * QUERIES * PITCH
};

%   include "gpu_gradients_tiles.cu.lua"

%   include "gpu_gradients_kinds.cu.lua"
% end
% local types = { sum = "sum", row = "row_sums", key = "key_sums", diagonal = "diagonal_sums<%s1>",
%   distance = "distance_sums", pair = "pair_sums" }
% -- The statements of a read at each stage of a walk, those for its kind.
% local function say(format, ...) return text.wrap(string.format(format, ...)) end
% local function begin_block(read)
${types[read.kind]:format(read.sign)} ${read.name};
%   if read.kind == "sum" then
${read.name}.begin();
%   elseif read.length then
${say("%s.begin(args.parts.%s, %s, tiles + %s);", read.name, read.name, read.length, read.pairs)}
%   end
% end
% local function begin_fixed(read)
%   if read.kind == "row" or read.kind == "key" then
${read.name}.begin();
%   end
% end
% local function begin_tile(walk, read)
%   if read.kind == "sum" then
${read.name}.begin_tile();
%   elseif read.kind == "diagonal" then
${say("%s.begin_tile(%s);", read.name, gradients.element_of_diagonal(walk, read))}
%   end
% end
% local function add_pair(walk, read)
%   local where = { sum = "", row = "i, e, ", key = "j, e, " }
%   local value = (where[read.kind] or "row, column, ") .. gradients.value(walk, read)
%   if read.kind == "pair" then value = value .. ", at_" .. read.name end
${say("%s.add_pair(%s);", read.name, value)}
% end
% local function end_tile(walk, read)
%   if read.kind == "distance" then
{
  const int diagonal = (int)threadIdx.x - (QUERIES - 1);
  const int distance = diagonal + k_first - q_first;
  ${say("%s.end_tile(diagonal, %s);", read.name, gradients.element_of_distance(walk, read))}
}
%   elseif read.kind ~= "row" and read.kind ~= "key" then
${read.name}.end_tile();
%   end
% end
% local function end_fixed(read)
%   local name = read.name
%   if read.kind == "row" then
${name}.end(args.parts.${name}, any_head, first_row, query_tile, args.seqlen_q);
%   elseif read.kind == "key" then
${name}.end(args.parts.${name}, any_head, first_column, key_tile, args.seqlen_k);
%   end
% end
% local function end_block(read)
%   if read.kind == "sum" then
${read.name}.end(args.parts.${read.name});
%   elseif read.kind == "diagonal" then
${read.name}.end();
%   end
% end
% -- The pairs of a tile, of which S and dP are there.
% local places = {
%   { "row", "const int row = first_row + 16 * i + e / 2 * 8;" },
%   { "column", "const int column = first_column + 8 * j + e % 2;" },
%   { "q_position", "const int q_position = q_first + row;" },
%   { "k_position", "const int k_position = k_first + column;" },
% }
% local function add_pairs(walk, masked)
%   local said = walk.pair .. (masked and walk.predicate or "") .. (walk.keeps and " row column" or "")
#pragma unroll
for (int i = 0; i < PART / 16; ++i) {
#pragma unroll
  for (int j = 0; j < PART / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      ${score.declared(places, said)}
      float score = multiply(s[i][j][e], args.softmax_scale);
      ${walk.pair}
      float p = exp2_approx(multiply_add(score, LOG2_E, minus_lse[i][e / 2]));
%   if masked then
      ${say("if (!(%s))", walk.predicate)}
        p = 0.0f;
%   end
%   if masked or walk.factors then
      const bool counts = __float_as_uint(p) != 0;
      const float gradient = counts ? multiply(p, subtract(dp[i][j][e], d[i][e / 2])) : 0.0f;
%   else
      const float gradient = multiply(p, subtract(dp[i][j][e], d[i][e / 2]));
%   end
%   for _, read in ipairs(walk.reads) do
      ${capture(add_pair, walk, read)}
%   end
    }
  }
}
% end
% local function visit(walk, masked)
%   local by_keys = walk.fixed == "k"
wait_copies<0>();
__syncthreads(); /* the tiles have arrived */
%   if by_keys and gradients.names_position(walk, "q", masked) then
const int q_first = tile * QUERIES + shift;
%   elseif not by_keys and gradients.names_position(walk, "k", masked) then
const int k_first = tile * KEYS;
%   end
const int first_query = ${by_keys and "tile" or "query_tile"} * QUERIES + first_row;
float minus_lse[PART / 16][2], d[PART / 16][2];
load_statistics(minus_lse, d, at, first_query, args.seqlen_q);
float s[PART / 16][PART / 8][4] = {}, dp[PART / 16][PART / 8][4] = {};
add_product<DIM_QK>(s, shared + Q_TILE, shared + K_TILE);
add_product<DIM_V>(dp, shared + DOUT_TILE, shared + V_TILE);
%   for _, read in ipairs(walk.reads) do
${capture(begin_tile, walk, read)}
%   end
__syncthreads(); /* nobody reads the tiles any more */
%   local early = walk.early and walk.early .. " && " or ""
%   local load = by_keys and "load_queries" or "load_keys"
%   if walk.early ~= "false" then
if (${early}tile + 1 < ${walk.finish})
  ${load}(args, at, shared, tile + 1);
%   end
${capture(add_pairs, walk, masked)}
%   for _, read in ipairs(walk.reads) do
${capture(end_tile, walk, read)}
%   end
%   if walk.early then
%     local late = walk.early ~= "false" and "!(" .. walk.early .. ") && " or ""
__syncthreads(); /* nobody reads the pairs any more */
if (${late}tile + 1 < ${walk.finish})
  ${load}(args, at, shared, tile + 1);
%   end
commit_copies();
% end
% local function position_of_fixed(walk)
%   local axis = walk.fixed
%   local first, last = axis .. "_first", axis .. "_last"
%   local names_last = gradients.setup_mentions(walk, last)
%   local names = gradients.names_position(walk, axis, walk.masked) or gradients.setup_mentions(walk, first)
%   if names or names_last then
const int ${first} = ${axis == "k" and "key_tile * KEYS" or "query_tile * QUERIES + shift"};
%   end
%   if names_last then
const int ${last} = ${first} + ${axis == "k" and "KEYS" or "QUERIES"} - 1;
%   end
% end
% local function names_shift(walk)
%   for _, name in ipairs { "shift", "q_first", "q_last" } do
%     if gradients.setup_mentions(walk, name) then return true end
%   end
%   return gradients.names_position(walk, "q", walk.masked)
% end
% for _, walk in ipairs(gradients.walks) do
%   local by_keys, begin, finish = walk.fixed == "k", walk.begin, walk.finish
%   local tile, tiles = by_keys and "key_tile" or "query_tile", by_keys and "key_tiles" or "query_tiles"
%   local columns = gradients.names_position(walk, "k", walk.masked)
%   for _, read in ipairs(walk.reads) do columns = columns or read.index or read.kind == "key" end

/* Grid: ${by_keys and "key" or "query"} tiles of a head, or fewer, x heads_q x batch, all in x. */
extern "C" __global__ void __launch_bounds__(THREADS, ${gradients.blocks_resident})
${spec.name}_${walk.entry}(
    const __grid_constant__ gradient_args args) {
  extern __shared__ __align__(16) unsigned char tiles[];
  const unsigned shared = (unsigned)__cvta_generic_to_shared(tiles);
  const int any_head = blockIdx.x / args.${walk.blocks};
  const int batch = any_head / args.heads_q, head = any_head - batch * args.heads_q;
  const head_at at = find_head(args, batch, head);
%   if by_keys or gradients.setup_mentions(walk, "key_tiles") then
  const int key_tiles = (args.seqlen_k + KEYS - 1) / KEYS;
%   end
%   if not by_keys or gradients.setup_mentions(walk, "query_tiles") then
  const int query_tiles = (args.seqlen_q + QUERIES - 1) / QUERIES;
%   end
%   if names_shift(walk) then

  /* Positions are on the key axis: the last query stands at the last key. */
  const int shift = args.seqlen_k - args.seqlen_q;
%   end
  ${walk.uniforms}

  /* Where the pairs of this lane begin in a tile. */
  const int first_row = threadIdx.x / 32 % 2 * PART + threadIdx.x % 32 / 4;
%   if columns then
  const int first_column = threadIdx.x / 64 * PART + threadIdx.x % 4 * 2;
%   end
%   for _, read in ipairs(walk.reads) do
  ${capture(begin_block, read)}
%   end

  for (int ${tile} = blockIdx.x - any_head * args.${walk.blocks}; ${tile} < ${tiles};
       ${tile} += args.${walk.blocks}) {
    ${capture(position_of_fixed, walk)}
    ${walk.runs.setup}
    __syncthreads(); /* nobody reads the tiles of before any more */
    ${by_keys and "load_keys" or "load_queries"}(args, at, shared, ${tile});
    if (${begin} < ${finish})
      ${by_keys and "load_queries" or "load_keys"}(args, at, shared, ${begin});
    commit_copies();
%   for _, read in ipairs(walk.reads) do
    ${capture(begin_fixed, read)}
%   end
%   for _, run in ipairs(walk.runs.runs) do

#pragma unroll 1
    for (int tile = ${run.from}; tile < ${run.to}; ++tile) {
      ${capture(visit, walk, run.masked)}
    }
%   end
%   for _, read in ipairs(walk.reads) do
    ${capture(end_fixed, read)}
%   end
  }
%   for _, read in ipairs(walk.reads) do
  ${capture(end_block, read)}
%   end
}
% end
% if #gradients.walks > 0 then

} // namespace gradients
% end
% if score.sink then

%   include "gpu_sink.cu.lua"
% end

% include "gpu_gradients_sums.cu.lua"
