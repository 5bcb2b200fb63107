/* cache_folder.h: which folder the cache is in, and whether it is this user's alone. */
#ifndef FAGEN_RUNTIME_CACHE_FOLDER_H
#define FAGEN_RUNTIME_CACHE_FOLDER_H

#include "log.h"

/* Opens the folder as cache_open chooses it, making it if need be. Gives its descriptor and its
   path (yours: free()); -1 when there is none, with one warning unless none was wanted. */
int cache_folder_open(char **path, const char *dir, log_level log);

#endif
