/* host_symbols.c: stand-ins for what libtcc and Lua use of the process. */
#include "host_symbols.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

extern char **environ;

FILE *fagen_stdin, *fagen_stdout, *fagen_stderr;
char **fagen_environ;
_Thread_local jmp_buf *host_exit_landing;

__attribute__((constructor)) static void take_streams(void) {
  fagen_stdin = stdin;
  fagen_stdout = stdout;
  fagen_stderr = stderr;
  fagen_environ = environ;
}

/* jit.c maps the finished code executable itself; libtcc's request for RWX is answered and ignored.
 */
int fagen_mprotect(void *address, size_t bytes, int protection);
int fagen_mprotect(void *address, size_t bytes, int protection) {
  (void)address, (void)bytes, (void)protection;
  return 0;
}

_Noreturn void fagen_exit(int code);
_Noreturn void fagen_exit(int code) {
  if (host_exit_landing) longjmp(*host_exit_landing, code ? code : 1);
  abort(); /* unreachable: libtcc runs inside jit.c only */
}
