% -- What every emitted sm80 kernel begins with: its name, arguments, constants and PTX.
% local major, minor = spec.arch // 10, spec.arch % 10
/* ${spec.name}
 *
 * Emitted by fagen ${spec.version} from the spec "${spec.words}"
 * for compute capability ${major}.${minor}. CUDA C++ that includes nothing: NVRTC compiles it,
 * and so does nvcc -arch=sm_${spec.arch}.
 */

% include "sm80/args.cu.lua"

enum {
  DIM_QK = ${spec.dim_qk},
  DIM_V = ${spec.dim_v},
  GROUP = ${spec.group}, /* query heads a key/value head */
  QUERIES = ${tiles.queries}, /* rows of a query tile */
  KEYS = ${tiles.keys}, /* keys of a key tile */
  THREADS = ${tiles.threads}
};

% include "sm80/ptx.cu.lua"

/* n / d; a GPU has no instruction for it. */
DEVICE unsigned divide(unsigned n, const divisor &d) {
  return (unsigned)((unsigned long long)n * d.magic >> d.shift);
}

% if spec.pass ~= "pre" then
%   include "gpu_functions.cu.lua"

% end
/* The rows of one of batch x heads. */
DEVICE element *rows_of(const tensor &t, const divisor &heads, unsigned head) {
  const unsigned batch = divide(head, heads);
  return t.data + batch * t.stride_batch + (head - batch * heads.number) * t.stride_head;
}
