/* progress.h: one line on stderr for work that takes seconds; only where stderr is a terminal. */
#ifndef FAGEN_CLI_PROGRESS_H
#define FAGEN_CLI_PROGRESS_H

/* Shows `what`, a bar and the percentage of `done`, 0 to 1. May be called often: it writes when the
   percentage changes, and not before half a second has passed since the first call. */
void progress_show(const char *what, double done);

/* Takes the line away. To be called before anything else is printed. */
void progress_end(void);

#endif
