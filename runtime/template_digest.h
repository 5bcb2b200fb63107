/* template_digest.h: what all texts that can be rendered depend on, in 128 bits. */
#ifndef FAGEN_RUNTIME_TEMPLATE_DIGEST_H
#define FAGEN_RUNTIME_TEMPLATE_DIGEST_H

#include "digest.h"
#include "fagen.h"

/* The digest of the embedded templates, the engine, and every file of the overlay (NULL = none),
   whether a spec uses it or not. FA_INVALID: the overlay is no folder of templates. */
fa_status template_digest(digest *out, const char *overlay);

#endif
