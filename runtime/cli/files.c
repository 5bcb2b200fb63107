/* files.c: folders with their parents, and files that are replaced in one step. */
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_one(const char *path) {
  if (mkdir(path, 0777) == 0) return 0;
  int error = errno;
  struct stat found;
  /* A read-only parent answers EROFS or EACCES even for a folder that is there. */
  if (stat(path, &found)) return error;
  return S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
}

int files_make_folder(const char *path) {
  if (!*path) return ENOENT;
  char *parent = strdup(path);
  if (!parent) return ENOMEM;
  int error = 0;
  for (char *slash = strchr(parent + 1, '/'); slash && !error; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    error = make_one(parent);
    *slash = '/';
  }
  free(parent);
  return error ? error : make_one(path);
}

/* mkstemp makes files for the owner alone; a plain open would have asked the umask. */
static int permit_by_umask(int descriptor) {
  mode_t mask = umask(0);
  umask(mask);
  return fchmod(descriptor, 0666 & ~mask);
}

static int write_all(int descriptor, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t n = write(descriptor, bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes += n;
    count -= (size_t)n;
  }
  return 0;
}

/* Writes a new file beside the final one; path ends in XXXXXX. */
static int write_temporary(char *path, const void *bytes, size_t count) {
  int descriptor = mkstemp(path);
  if (descriptor < 0) return errno;
  int error = permit_by_umask(descriptor) ? errno : write_all(descriptor, bytes, count);
  if (close(descriptor) && !error) error = errno;
  if (error) unlink(path);
  return error;
}

int files_write(const char *folder, const char *name, const void *bytes, size_t count) {
  char *path = NULL, *temporary = NULL;
  int error = ENOMEM;
  if (asprintf(&path, "%s/%s", folder, name) < 0) path = NULL;
  if (asprintf(&temporary, "%s/.%s.XXXXXX", folder, name) < 0) temporary = NULL;
  if (!path || !temporary) goto cleanup;
  error = write_temporary(temporary, bytes, count);
  if (error) goto cleanup;
  if (rename(temporary, path)) {
    error = errno;
    unlink(temporary);
  }
cleanup:
  free(path);
  free(temporary);
  return error;
}
