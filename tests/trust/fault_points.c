/* fault_points.c: one wrapper for each function that can fail, all alike. */
#include "fault_points.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static fault_trace *trace;
static fault_plan plan;
static long failures;
static int armed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fault_begin(fault_trace *to, const fault_plan *by) {
  pthread_mutex_lock(&lock);
  trace = to;
  plan = *by;
  failures = 0;
  armed = 1;
  pthread_mutex_unlock(&lock);
}

long fault_end(void) {
  pthread_mutex_lock(&lock);
  armed = 0;
  pthread_mutex_unlock(&lock);
  return failures;
}

static int is_site(const fault_site *site, const void *address, const char *name) {
  return site->address == address && !strncmp(site->name, name, FAULT_NAME - 1);
}

static fault_site *site_of(const void *address, const char *name) {
  for (int i = 0; i < trace->num_sites; ++i)
    if (is_site(&trace->sites[i], address, name)) return &trace->sites[i];
  if (trace->num_sites == FAULT_SITES) abort();
  fault_site *fresh = &trace->sites[trace->num_sites++];
  *fresh = (fault_site){.address = address};
  snprintf(fresh->name, sizeof fresh->name, "%s", name);
  return fresh;
}

static int fails_at(const void *address, const char *name) {
  int fails = 0;
  pthread_mutex_lock(&lock);
  if (armed) {
    fault_site *site = site_of(address, name);
    fails = ++site->hits == plan.site.hits && is_site(&plan.site, address, name);
    fails |= plan.lasting && failures;
    failures += fails;
  }
  pthread_mutex_unlock(&lock);
  return fails;
}

/* For the libraries that stand in for NVRTC and the driver: they see it where they are loaded into
   this program. */
__attribute__((visibility("default"))) int fault_point(const char *name);
int fault_point(const char *name) {
  return fails_at(NULL, name);
}

/* What a failing call gives, with errno set. */
static int refuse(int error) {
  errno = error;
  return -1;
}

static void *refuse_pointer(int error) {
  errno = error;
  return NULL;
}

#pragma GCC visibility push(default) /* the linker asks it of what stands in for libc's */

#define WRAP(result, name, parameters, arguments, refused) \
  result __real_##name parameters;                         \
  result __wrap_##name parameters;                         \
  result __wrap_##name parameters {                        \
    if (fails_at(__builtin_return_address(0), #name)) {    \
      return refused;                                      \
    }                                                      \
    return __real_##name arguments;                        \
  }

/* clang-format off */

/* ---- Memory --------------------------------------------------------------------------------- */
WRAP(void *, malloc, (size_t bytes), (bytes), refuse_pointer(ENOMEM))
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes), refuse_pointer(ENOMEM))
WRAP(void *, realloc, (void *old, size_t bytes), (old, bytes), refuse_pointer(ENOMEM))
WRAP(void *, aligned_alloc, (size_t to, size_t bytes), (to, bytes), refuse_pointer(ENOMEM))
WRAP(char *, strdup, (const char *text), (text), refuse_pointer(ENOMEM))
WRAP(char *, strndup, (const char *text, size_t bytes), (text, bytes), refuse_pointer(ENOMEM))
WRAP(FILE *, open_memstream, (char **text, size_t *bytes), (text, bytes), refuse_pointer(ENOMEM))
WRAP(locale_t, newlocale, (int mask, const char *name, locale_t base), (mask, name, base),
     refuse_pointer(ENOMEM))

/* ---- Files: full, locked, gone, on a server that forgot them ---------------------------------- */
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), refuse_pointer(EMFILE))
WRAP(DIR *, opendir, (const char *path), (path), refuse_pointer(EMFILE))
WRAP(DIR *, fdopendir, (int folder), (folder), refuse_pointer(ENOMEM))
WRAP(ssize_t, pread, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at),
     refuse(EIO))
WRAP(int, fstat, (int file, struct stat *info), (file, info), refuse(ESTALE))
WRAP(int, stat, (const char *path, struct stat *info), (path, info), refuse(ESTALE))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), refuse(EROFS))
WRAP(int, mkstemp, (char *path), (path), refuse(EROFS))
WRAP(int, rename, (const char *from, const char *to), (from, to), refuse(EBUSY))
WRAP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to),
     refuse(EBUSY))
WRAP(int, flock, (int file, int how), (file, how), refuse(ENOLCK))
WRAP(int, utimensat, (int folder, const char *path, const struct timespec *to, int flags),
     (folder, path, to, flags), refuse(EROFS))
WRAP(FTS *, fts_open, (char *const *paths, int how, int (*order)(const FTSENT **, const FTSENT **)),
     (paths, how, order), refuse_pointer(ENOMEM))

/* ---- Pages, threads, libraries ----------------------------------------------------------------- */
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), refuse(ENOSYS))
WRAP(int, ftruncate, (int file, off_t bytes), (file, bytes), refuse(ENOSPC))
WRAP(int, pthread_create,
     (pthread_t *out, const pthread_attr_t *how, void *(*run)(void *), void *with),
     (out, how, run, with), EAGAIN)
WRAP(void *, dlopen, (const char *path, int flags), (path, flags), refuse_pointer(ENOMEM))
WRAP(void *, dlsym, (void *library, const char *name), (library, name), refuse_pointer(ENOMEM))
WRAP(int, dlinfo, (void *library, int what, void *to), (library, what, to), -1)

/* clang-format on */

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t from);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t from);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t from) {
  if (!fails_at(__builtin_return_address(0), "mmap"))
    return __real_mmap(at, bytes, protection, flags, file, from);
  errno = ENOMEM;
  return MAP_FAILED;
}

/* Data may also come and go in pieces. */
ssize_t __real_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes) {
  if (fails_at(__builtin_return_address(0), "read")) return refuse(EIO);
  if (fails_at(__builtin_return_address(0), "read in part")) bytes = (bytes + 1) / 2;
  return __real_read(file, to, bytes);
}

ssize_t __real_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes) {
  if (fails_at(__builtin_return_address(0), "write")) return refuse(ENOSPC);
  if (fails_at(__builtin_return_address(0), "write in part")) bytes = (bytes + 1) / 2;
  return __real_write(file, from, bytes);
}

/* Fails as it does on a server: the file is closed all the same. */
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file) {
  int result = __real_close(file);
  return fails_at(__builtin_return_address(0), "close") ? refuse(EIO) : result;
}

static int mode_of(int flags, va_list arguments) {
  return flags & O_CREAT ? va_arg(arguments, int) : 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails_at(__builtin_return_address(0), "open")) return refuse(EMFILE);
  return __real_open(path, flags, mode);
}

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails_at(__builtin_return_address(0), "openat")) return refuse(ESTALE);
  return __real_openat(folder, path, flags, mode);
}
