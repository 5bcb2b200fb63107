/* registry.h: the kernels of a context by spec: found without a lock, built once. */
#ifndef FAGEN_RUNTIME_REGISTRY_H
#define FAGEN_RUNTIME_REGISTRY_H

#include "fagen.h"

typedef struct registry registry;

/* Builds the kernel of a canonical spec. */
typedef fa_status (*registry_build)(fa_kernel **out, fa_context *context, const fa_spec *spec);

/* free_kernel frees what a build made. */
typedef void (*registry_free)(fa_kernel *kernel);

fa_status registry_create(registry **out, registry_free free_kernel);

/* Frees the registry and every kernel. NULL is allowed. */
void registry_destroy(registry *kernels);

/* The kernel of a canonical spec if it is built, else NULL. Waits for nothing. */
const fa_kernel *registry_find(registry *kernels, const fa_spec *spec);

/* The kernel of a canonical spec; builds it when there is none. Callers that come during the build
   wait for it and share its outcome; a failure is forgotten once they have it. */
fa_status registry_get(const fa_kernel **out, registry *kernels, fa_context *context,
                       const fa_spec *spec, registry_build build);

#endif
