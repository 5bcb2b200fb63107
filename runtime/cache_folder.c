/* cache_folder.c: which folder the cache is in, and whether it is this user's alone. */
#include "cache_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *folder, const char *below) {
  size_t bytes = strlen(folder) + strlen(below) + 1;
  char *path = malloc(bytes);
  if (path) snprintf(path, bytes, "%s%s", folder, below);
  return path;
}

char *cache_folder_choose(const char *dir, size_t *given) {
  const char *named = dir ? dir : getenv("FA_CACHE_DIR");
  *given = 0;
  if (named) return *named ? strdup(named) : NULL;
  const char *base = getenv("XDG_CACHE_HOME");
  if (base && base[0] == '/') return join(base, "/fagen"); /* relative ones are to be ignored */
  const char *home = getenv("HOME");
  if (!home || home[0] != '/') return NULL;
  *given = strlen(home);
  return join(home, "/.cache/fagen");
}

/* Makes the folders of a path behind its first `given` bytes. Failures show when it is opened. */
static void make_folders(char *path, size_t given) {
  for (char *at = path + given + 1; *at; ++at) {
    if (*at != '/') continue;
    *at = '\0';
    mkdir(path, 0700);
    *at = '/';
  }
  mkdir(path, 0700);
}

/* Why the folder may not be trusted, NULL when it may. */
static const char *distrust(int folder) {
  struct stat info;
  if (fstat(folder, &info)) return strerror(errno);
  if (info.st_uid != geteuid()) return "it belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it (chmod 700)";
  return NULL;
}

int cache_folder_open(char **path, const char *dir, log_sink log) {
  size_t given;
  *path = cache_folder_choose(dir, &given);
  if (!*path) return -1;
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int folder = open(*path, flags);
  if (folder < 0 && errno == ENOENT) {
    make_folders(*path, given);
    folder = open(*path, flags);
  }
  int is_link = folder < 0 && (errno == ELOOP || errno == ENOTDIR);
  const char *why = folder >= 0 ? distrust(folder)
                    : is_link   ? "it is no folder, or a symbolic link"
                                : strerror(errno);
  if (!why) return folder;
  log_line(log, LOG_WARNINGS, "cache folder %.400s: %s; kernels are not kept", *path, why);
  if (folder >= 0) close(folder);
  free(*path);
  *path = NULL;
  return -1;
}
