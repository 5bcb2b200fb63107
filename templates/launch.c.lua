% -- The launch plan of a kernel as one pure C function; the steps are the target's.
/* ${spec.name}_launch
 *
 * Emitted by fagen ${spec.version} from the spec
 *   ${spec.words}
 * The launch plan of that kernel, problem in, steps out, as one pure C99 function
 *   ${spec.name}_plan
 * that includes nothing and calls nothing.
 */

${paste "fagen_plan.h"}

% include(spec.target .. "/steps.c.lua")
