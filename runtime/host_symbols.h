/* host_symbols.h: what libtcc and Lua use of the process, under our own hidden names.
   Both archives are linked into the shared library with these symbols renamed
   (cmake/static_archives.cmake): their code was not built for a shared library and cannot refer to
   another module's data, and libtcc must neither make memory writable and executable at once nor
   end the process. */
#ifndef FAGEN_RUNTIME_HOST_SYMBOLS_H
#define FAGEN_RUNTIME_HOST_SYMBOLS_H

#include <setjmp.h>

/* Where libtcc's exit() lands on this thread; NULL outside libtcc. */
extern _Thread_local jmp_buf *host_exit_landing;

#endif
