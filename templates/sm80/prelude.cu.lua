% -- What every emitted sm80 kernel begins with: its name, arguments, constants, PTX and tile functions.
/* ${spec.name}
 *
 * Emitted by fagen ${spec.version} from the spec "${spec.words}" for compute capability
 * ${spec.arch // 10}.${spec.arch % 10}. CUDA C++ that includes nothing: compiles with NVRTC, or with nvcc -arch=sm_${spec.arch}.
 */

% include "sm80/args.cu.lua"

enum {
  DIM_QK = ${spec.dim_qk},
  DIM_V = ${spec.dim_v},
  GROUP = ${spec.group},     /* query heads a key/value head */
  QUERIES = ${tiles.queries}, /* rows of a query tile */
  KEYS = ${tiles.keys},    /* keys of a key tile */
  WARPS = ${tiles.warps},
  THREADS = 32 * WARPS
};

% include "sm80/ptx.cu.lua"

/* The rows of one head of one batch entry. */
DEVICE element *rows_of(const tensor &t, int batch, int head) {
  return t.data + batch * t.stride_batch + head * t.stride_head;
}
