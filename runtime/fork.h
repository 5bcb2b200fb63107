/* fork.h: what a forked child inherits: handles that do not work, and locks that nobody unlocks. */
#ifndef FAGEN_RUNTIME_FORK_H
#define FAGEN_RUNTIME_FORK_H

#include <pthread.h>

/* How many forks lie between the first call in this process's ancestry and this process. Costs a
   load: a getpid() is a system call. */
unsigned fork_depth(void);

/* Has a forked child find this lock free, whoever held it. For locks of the process, before they are
   taken; what the lock guards must be right at every step. */
void fork_frees(pthread_mutex_t *lock);

#endif
