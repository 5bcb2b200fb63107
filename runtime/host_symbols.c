/* host_symbols.c: libc's data under names of our own. The archives of libtcc and Lua are linked into
   the shared library with these symbols renamed (cmake/static_archives.cmake): their code was not
   built for a shared library and cannot refer to another module's data. */
#include <stdio.h>

extern char **environ;

FILE *fagen_stdin, *fagen_stdout, *fagen_stderr;
char **fagen_environ;

__attribute__((constructor)) static void take_streams(void) {
  fagen_stdin = stdin;
  fagen_stdout = stdout;
  fagen_stderr = stderr;
  fagen_environ = environ;
}
