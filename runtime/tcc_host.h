/* tcc_host.h: what libtcc has of the process: jit.c's side of the renamed symbols
   (cmake/static_archives.cmake). Libtcc must neither make memory writable and executable at once nor
   open files nor end the process. It gives up by exit(), and without memory it may also touch NULL
   or keep its own lock for ever; so it is left in the middle, and put back as it was at first. */
#ifndef FAGEN_RUNTIME_TCC_HOST_H
#define FAGEN_RUNTIME_TCC_HOST_H

#include <setjmp.h>

/* Why libtcc was left: the result of setjmp. */
enum { TCC_HOST_GAVE_UP = 1, TCC_HOST_NO_MEMORY = 2 };

/* Where libtcc's exit(), and its want of memory, land on this thread; NULL outside libtcc. */
extern _Thread_local jmp_buf *tcc_host_landing;

/* Frees all that libtcc holds and clears its variables. Under jit.c's lock, as all of libtcc. */
void tcc_host_reset(void);

/* The end of the pages that libtcc wanted to be executable; NULL when there were none. Forgets it. */
const char *tcc_host_take_code_end(void);

#endif
