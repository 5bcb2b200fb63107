% -- What every emitted sm90 backward begins with: its name, types, PTX, arguments and sizes.
/* ${spec.name}
 *
 * Emitted by fagen ${spec.version} from the spec
 *   ${spec.words}
 * CUDA C++ for sm_90a that includes nothing: compiles with NVRTC, or with nvcc.
 */

% if spec.pass == "pre" then
%   include "sm90/ptx_pre.cu.lua"
% else
/* A tensor map as the driver encodes it. */
struct __align__(128) tensor_map {
  unsigned long long opaque[16];
};

typedef unsigned long long descriptor; /* of a tile in shared memory, for wgmma */

%   include "sm90/ptx.cu.lua"
% end

% include "sm90/args_bwd.cu.lua"

enum {
  DIM_QK = ${spec.dim_qk},
  DIM_V = ${spec.dim_v},
% if spec.group > 1 then
  GROUP = ${spec.group}, /* query heads a key/value head */
% end
  QUERIES = ${tiles.queries}, /* of a tile */
% if spec.pass == "bwd" then
  KEYS = ${tiles.keys},
  CONSUMERS = ${tiles.warpgroups}, /* warpgroups that compute */
%   if spec.deterministic then
  TURNS = ${tiles.turns}, /* counters a block */
%   end
  CHUNK = 64, /* columns: a row of a tile is cut into chunks of the bytes that the swizzle spans */
  CHUNK_ROW = 128, /* those bytes */
  QK_CHUNKS = ${tiles.qk_chunks}, /* chunks of DIM_QK columns */
  V_CHUNKS = ${tiles.v_chunks},
% end
  DQ_FLOATS = ${tiles.dq_floats} /* of dQ's sum for a query tile */
};

% if spec.pass == "bwd" then
%   include "gpu_functions.cu.lua"
% end

DEVICE element *rows_of(const tensor &t, long long batch, long long head) {
  return t.data + batch * t.stride_batch + head * t.stride_head;
}
% if spec.pass == "bwd" then

% include "sm90/tile.cu.lua"
% end
