/* fork.h: whether this process is a forked child of the one that opened something. */
#ifndef FAGEN_RUNTIME_FORK_H
#define FAGEN_RUNTIME_FORK_H

/* How many forks lie between the first call in this process's ancestry and this process. Costs a
   load: a getpid() is a system call. */
unsigned fork_depth(void);

#endif
