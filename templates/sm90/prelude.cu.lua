% -- What every emitted sm90 kernel begins with: its name, types, PTX, sizes and arguments.
/* ${spec.name}
 *
 * Emitted by fagen ${spec.version} from the spec
 *   ${spec.words}
 * CUDA C++ for sm_90a that includes nothing: compiles with NVRTC, or with nvcc.
 */

/* A tensor map as the driver encodes it. */
struct __align__(128) tensor_map {
  unsigned long long opaque[16];
};

typedef unsigned long long descriptor; /* of a tile in shared memory, for wgmma */

% include "sm90/ptx.cu.lua"

% include "sm90/args.cu.lua"

enum {
  DIM_QK = ${spec.dim_qk},
  DIM_V = ${spec.dim_v},
% if spec.group > 1 then
  GROUP = ${spec.group}, /* query heads a key/value head */
% end
  ROWS = 64,       /* queries of a warpgroup */
  CHUNK = 64,      /* columns; tiles are cut into chunks, whose rows are what the swizzle spans: */
  CHUNK_ROW = 128, /* bytes */
  QK_CHUNKS = ${tiles.qk_chunks},
% if spec.pass == "fwd" and tiles.q_registers then
  Q_WORDS = (DIM_QK + 15) / 16 * 4, /* of a lane, where Q is in registers */
% end
  V_CHUNKS = ${tiles.v_chunks}
};

#define MINUS_INFINITY __uint_as_float(0xff800000u)
% include "gpu_functions.cu.lua"

% include "sm90/tile.cu.lua"
