/* cache_folder.h: which folder the cache is in, and whether it is this user's alone. */
#ifndef FAGEN_RUNTIME_CACHE_FOLDER_H
#define FAGEN_RUNTIME_CACHE_FOLDER_H

#include <stddef.h>

#include "log.h"

/* The path, yours: free(); NULL when there is none to be had. *given: how much of it is there or is
   not ours to make. */
char *cache_folder_choose(const char *dir, size_t *given);

/* Opens the folder as cache_open chooses it, making it if need be. Gives its descriptor and its
   path (yours: free()); -1 when there is none, with one warning unless none was wanted. */
int cache_folder_open(char **path, const char *dir, log_sink log);

#endif
