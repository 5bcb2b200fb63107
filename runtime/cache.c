/* cache.c: entries in a folder, one file each, published by rename. */
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache_file.h"
#include "cache_folder.h"
#include "digest.h"

enum { LARGEST_FILE = 256 << 20 };

struct cache {
  int folder;
  char *path;
  log_sink log;
  atomic_flag told_unwritable;
};

static const char entry_ending[] = ".entry", temporary_ending[] = ".tmp", lock_ending[] = ".lock";

cache *cache_open(const char *dir, log_sink log) {
  char *path;
  int folder = cache_folder_open(&path, dir, log);
  cache *open = folder < 0 ? NULL : calloc(1, sizeof *open);
  if (open) {
    *open = (cache){.folder = folder, .path = path, .log = log};
    atomic_flag_clear(&open->told_unwritable);
  } else if (folder >= 0) {
    close(folder);
    free(path);
  }
  return open;
}

void cache_close(cache *open) {
  if (!open) return;
  close(open->folder);
  free(open->path);
  free(open);
}

char *cache_choose(const char *dir) {
  size_t given;
  return cache_folder_choose(dir, &given);
}

const char *cache_path(const cache *open) {
  return open ? open->path : "";
}

static void name_file(char name[CACHE_FILE_NAME], const char *key, const char *ending) {
  char hex[DIGEST_HEX];
  digest_print(hex, digest_of(key, strlen(key)));
  snprintf(name, CACHE_FILE_NAME, "%s%s", hex, ending);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static void *read_all(int file, size_t bytes) {
  char *buffer = malloc(bytes + 1);
  size_t used = 0;
  while (buffer && used < bytes) {
    ssize_t count = read(file, buffer + used, bytes - used);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    used += (size_t)count;
  }
  if (used == bytes) return buffer;
  free(buffer);
  return NULL;
}

typedef enum found { ABSENT, DAMAGED, FOUND } found;

/* Reads one file of the folder as an entry. Not by itself a use of it: that sets the time of
   access. */
static found read_entry(cache_entry *out, const cache *from, const char *name, struct stat *info) {
  const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
  int file = openat(from->folder, name, flags | O_NOATIME);
  if (file < 0 && errno != ENOENT) file = openat(from->folder, name, flags);
  if (file < 0) return errno == ENOENT ? ABSENT : DAMAGED;
  void *bytes = NULL;
  int trusted = !fstat(file, info) && S_ISREG(info->st_mode) && info->st_uid == geteuid() &&
                !(info->st_mode & (S_IWGRP | S_IWOTH)) && info->st_size <= LARGEST_FILE;
  if (trusted) bytes = read_all(file, (size_t)info->st_size);
  found result = DAMAGED;
  if (bytes && cache_file_decode(out, bytes, (size_t)info->st_size))
    result = FOUND;
  else
    free(bytes);
  close(file);
  return result;
}

int cache_read(cache_entry *out, cache *from, const char *key) {
  char name[CACHE_FILE_NAME];
  struct stat info;
  if (!from) return 0;
  name_file(name, key, entry_ending);
  found result = read_entry(out, from, name, &info);
  if (result == ABSENT)
    log_line(from->log, LOG_DEBUG, "cache entry %.400s/%s is not there", from->path, name);
  if (result == DAMAGED) {
    log_line(from->log, LOG_WARNINGS, "cache entry %.400s/%s is damaged and will be made again",
             from->path, name);
    unlinkat(from->folder, name, 0);
  }
  if (result != FOUND) return 0;
  if (strcmp(out->key, key)) {
    log_line(from->log, LOG_DEBUG, "cache entry %.400s/%s is of another key", from->path, name);
    cache_entry_free(out);
    return 0;
  }
  const struct timespec now_used[] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
  utimensat(from->folder, name, now_used, AT_SYMLINK_NOFOLLOW);
  log_line(from->log, LOG_DEBUG, "cache entry %.400s/%s is read", from->path, name);
  return 1;
}

void cache_entry_free(cache_entry *entry) {
  free(entry->file);
  memset(entry, 0, sizeof *entry);
}

const cache_section *cache_find(const cache_entry *entry, const char *name) {
  for (int i = 0; i < entry->num_sections; ++i)
    if (!strcmp(entry->sections[i].name, name)) return &entry->sections[i];
  return NULL;
}

/* ---- Writing -------------------------------------------------------------------------------- */

static int write_all(int file, const char *bytes, size_t count) {
  while (count) {
    ssize_t written = write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return -1;
    bytes += written;
    count -= (size_t)written;
  }
  return 0;
}

/* A fresh file that no reader looks at. Its name is new even where several machines share the
   folder. */
static int create_temporary(char temporary[CACHE_FILE_NAME], const cache *in) {
  static atomic_uint counter;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(temporary, CACHE_FILE_NAME, "%ld-%ld-%u%s", (long)getpid(), now.tv_nsec,
           atomic_fetch_add(&counter, 1), temporary_ending);
  return openat(in->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Writes beside, then renames: a reader sees a whole entry or none. Not synced to the disk: the
   checksum finds what a crash of the machine tears. */
static int publish(const cache *to, const char *name, const char *bytes, size_t count) {
  char temporary[CACHE_FILE_NAME];
  int file = create_temporary(temporary, to);
  if (file < 0) return -1;
  int failed = write_all(file, bytes, count);
  failed |= close(file);
  if (!failed) failed = renameat(to->folder, temporary, to->folder, name);
  if (failed) {
    int reason = errno;
    unlinkat(to->folder, temporary, 0);
    errno = reason;
  }
  return failed;
}

void cache_write(cache *to, const char *key, const cache_section *sections, int count) {
  char name[CACHE_FILE_NAME];
  size_t bytes;
  if (!to) return;
  char *file = cache_file_encode(&bytes, key, sections, count);
  if (!file) return;
  name_file(name, key, entry_ending);
  if (!publish(to, name, file, bytes))
    log_line(to->log, LOG_DEBUG, "cache entry %.400s/%s is written, %zu bytes", to->path, name,
             bytes);
  else if (!atomic_flag_test_and_set(&to->told_unwritable))
    log_line(to->log, LOG_WARNINGS, "cache folder %.400s: %s; kernels are not kept", to->path,
             strerror(errno));
  free(file);
}

/* ---- One at a time --------------------------------------------------------------------------- */

enum { LOCK_PATIENCE_MS = 60000, LOCK_POLL_MS = 5 };

/* flock() and not a file that is there or not: the kernel releases it when the holder dies. */
static int wait_for_lock(int file, const cache *of) {
  const struct timespec pause = {.tv_nsec = LOCK_POLL_MS * 1000000L};
  for (int waited = 0; flock(file, LOCK_EX | LOCK_NB); waited += LOCK_POLL_MS) {
    if (errno != EWOULDBLOCK && errno != EINTR) return 0;
    if (!waited) log_line(of->log, LOG_DEBUG, "another process builds this kernel; waiting for it");
    if (waited >= LOCK_PATIENCE_MS) return 0;
    nanosleep(&pause, NULL);
  }
  return 1;
}

void cache_lock_take(cache_lock *out, cache *of, const char *key) {
  *out = (cache_lock){.of = of, .file = -1};
  if (!of) return;
  name_file(out->name, key, lock_ending);
  out->file = openat(of->folder, out->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (out->file < 0 || wait_for_lock(out->file, of)) return;
  close(out->file);
  out->file = -1;
}

/* Those who wait hold the removed file, and then find the entry; later ones find it at once. */
void cache_lock_drop(cache_lock *lock) {
  if (lock->file < 0) return;
  unlinkat(lock->of->folder, lock->name, 0);
  flock(lock->file, LOCK_UN); /* a child forked meanwhile has the file open too */
  close(lock->file);
  lock->file = -1;
}

/* ---- Looking after the folder ---------------------------------------------------------------- */

static int ends_in(const char *name, const char *ending) {
  size_t length = strlen(name), tail = strlen(ending);
  return length >= tail && !strcmp(name + length - tail, ending);
}

static DIR *open_listing(const cache *of) {
  int copy = openat(of->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = copy < 0 ? NULL : fdopendir(copy);
  if (!listing && copy >= 0) close(copy);
  return listing;
}

/* An entry under another name is never found. */
static int is_named_so(const char *file, const char *key) {
  char name[CACHE_FILE_NAME];
  name_file(name, key, entry_ending);
  return !strcmp(file, name);
}

void cache_visit(cache *of, void (*visit)(void *to, const cache_item *item), void *to) {
  DIR *listing = of ? open_listing(of) : NULL;
  if (!listing) return;
  for (struct dirent *at; (at = readdir(listing));) {
    cache_entry entry = {0};
    struct stat info = {0};
    if (!ends_in(at->d_name, entry_ending)) continue;
    found result = read_entry(&entry, of, at->d_name, &info);
    if (result == ABSENT) continue; /* gone since */
    cache_item item = {.file = at->d_name,
                       .key =
                           result == FOUND && is_named_so(at->d_name, entry.key) ? entry.key : NULL,
                       .bytes = (uint64_t)info.st_size,
                       .made = (int64_t)info.st_mtim.tv_sec,
                       .last_used = (int64_t)info.st_atim.tv_sec};
    visit(to, &item);
    cache_entry_free(&entry);
  }
  closedir(listing);
}

typedef struct kept_item {
  char file[CACHE_FILE_NAME];
  uint64_t bytes;
  int64_t last_used;
} kept_item;

typedef struct pruning {
  cache *of;
  kept_item *kept;
  size_t count;
  uint64_t kept_bytes, removed_bytes;
} pruning;

static void remove_file(pruning *p, const char *name, uint64_t bytes, const char *why) {
  if (unlinkat(p->of->folder, name, 0)) return;
  p->removed_bytes += bytes;
  log_line(p->of->log, LOG_INFO, "removed %.400s/%s: %s", p->of->path, name, why);
}

/* Notes an entry that is right; removes one that is not. */
static void sort_out(void *to, const cache_item *item) {
  pruning *p = to;
  kept_item *grown = NULL;
  if (item->key) grown = realloc(p->kept, (p->count + 1) * sizeof *grown);
  if (!item->key) remove_file(p, item->file, item->bytes, "damaged");
  if (!grown) return;
  p->kept = grown;
  kept_item *kept = &grown[p->count++];
  *kept = (kept_item){.bytes = item->bytes, .last_used = item->last_used};
  snprintf(kept->file, sizeof kept->file, "%s", item->file);
  p->kept_bytes += item->bytes;
}

static int by_last_use(const void *a, const void *b) {
  int64_t x = ((const kept_item *)a)->last_used, y = ((const kept_item *)b)->last_used;
  return (x > y) - (x < y);
}

/* What a killed process leaves is a file that nobody has written to for an hour. */
static void remove_leftovers(pruning *p) {
  DIR *listing = open_listing(p->of);
  for (struct dirent *at; listing && (at = readdir(listing));) {
    struct stat info;
    if (!ends_in(at->d_name, temporary_ending) && !ends_in(at->d_name, lock_ending)) continue;
    if (fstatat(p->of->folder, at->d_name, &info, AT_SYMLINK_NOFOLLOW)) continue;
    if (time(NULL) - info.st_mtim.tv_sec > 3600)
      remove_file(p, at->d_name, (uint64_t)info.st_size, "left by a process that ended");
  }
  if (listing) closedir(listing);
}

uint64_t cache_prune(cache *of, uint64_t bytes) {
  pruning p = {.of = of};
  if (!of) return 0;
  remove_leftovers(&p);
  cache_visit(of, sort_out, &p);
  if (p.count) qsort(p.kept, p.count, sizeof *p.kept, by_last_use);
  for (size_t i = 0; i < p.count && p.kept_bytes > bytes; ++i) {
    remove_file(&p, p.kept[i].file, p.kept[i].bytes, "least lately used");
    p.kept_bytes -= p.kept[i].bytes;
  }
  free(p.kept);
  return p.removed_bytes;
}
