/* jit.h: emitted C to machine code, in memory, by libtcc.
   The code is a closed world: it includes nothing and links to nothing. Its pages are never
   writable and executable at once. Static variables work, on x86; all threads see the same. */
#ifndef FAGEN_RUNTIME_JIT_H
#define FAGEN_RUNTIME_JIT_H

#include "fagen.h"
#include "render.h"

typedef struct jit_unit {
  const char *file_name; /* as messages show it, such as "fa_fwd_cpu_f32_d64.c" */
  const render_text *text;
} jit_unit;

typedef struct jit jit;

/* Compiles the units into one piece of code. FA_COMPILE: the message has the compiler's log, with
   template lines. FA_UNSUPPORTED: this system gives no executable memory. Until jit_seal the
   calling thread holds libtcc's lock: call no other jit function in between but jit_symbol. */
fa_status jit_compile(jit **out, const jit_unit *units, size_t count);

/* The address of a function, NULL when there is none. Before jit_seal only. */
void *jit_symbol(jit *code, const char *name);

/* Ends symbol look-up and frees all but the code itself. */
void jit_seal(jit *code);

/* Frees the code. NULL is allowed. */
void jit_free(jit *code);

#endif
