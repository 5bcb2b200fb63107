% -- What every emitted cpu kernel begins with: name, what it may call, constants, arguments.
/* ${spec.name}
 *
 * Emitted by fagen ${spec.version} from the spec
 *   ${spec.words}
 * Plain C99 that includes nothing: the schedule is here, the arithmetic on tiles behind fa_cpu_ops.
 */

${paste "cpu/abi.h"}

% include "cpu/args.c.lua"

enum {
  QUERIES = ${tiles.queries}, /* rows of a query tile */
  KEYS = ${tiles.keys},    /* keys of a key tile */
  DIM_QK = ${spec.dim_qk},
  DIM_V = ${spec.dim_v},
  LD_QK = ${tiles.ld_qk}, /* DIM_QK padded to FA_CPU_PAD: a tile's row length */
  LD_V = ${tiles.ld_v},
  GROUP = ${spec.group} /* query heads a key/value head */
};

#define MINUS_INFINITY (-1.0f / 0.0f)
% if require("mask").needs_far then
#define FAR (1LL << 40) /* past every position */
% end

static inline long long min(long long a, long long b) { return a < b ? a : b; }
static inline long long max(long long a, long long b) { return a > b ? a : b; }
% if spec.pass ~= "pre" then
%   include "cpu/functions.c.lua"
% end

/* The rows of one head of one batch entry. */
static inline element *rows_of(const tensor *t, long long batch, long long head) {
  return t->data + batch * t->stride_batch + head * t->stride_head;
}
