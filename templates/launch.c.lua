% -- The launch plan of a kernel as one pure C function; the steps are the target's.
/* ${spec.name}_launch: the plan of ${spec.name}.
 *
 * Emitted by fagen ${spec.version} from the spec "${spec.words}". ${spec.name}_plan is pure C99: problem
 * in, steps out. It includes nothing and calls nothing.
 */

${paste "fagen_plan.h"}

% include(spec.target .. "/steps.c.lua")
