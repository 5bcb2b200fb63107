/* cache.h: what was built, kept on disk for other processes and later ones.
   An entry is a few named byte strings under a key, which is text and compared whole. Entries are
   published complete, checked when read, and never changed; a damaged one is as good as none. The
   folder belongs to this user alone, because what is in it will be executed. Every function takes a
   NULL cache, which holds nothing and keeps nothing; none fails: without a disk the work is done
   again. */
#ifndef FAGEN_RUNTIME_CACHE_H
#define FAGEN_RUNTIME_CACHE_H

#include <stdint.h>

#include "fagen.h"
#include "log.h"

enum { CACHE_SECTIONS = 8, CACHE_SECTION_NAME = 16, CACHE_FILE_NAME = 64 };

typedef struct cache cache;

typedef struct cache_section {
  char name[CACHE_SECTION_NAME];
  const void *data;
  size_t bytes;
} cache_section;

typedef struct cache_entry {
  void *file; /* all that the sections point into */
  const char *key;
  cache_section sections[CACHE_SECTIONS];
  int num_sections;
} cache_entry;

/* Opens the folder: `dir`, or with NULL the one of FA_CACHE_DIR, XDG_CACHE_HOME or HOME; makes it
   if it is not there. NULL when none is wanted ("") or it cannot be used, with a warning for the
   latter. */
cache *cache_open(const char *dir, log_sink log);
void cache_close(cache *open);
const char *cache_path(const cache *open); /* "" for NULL */

/* Whether there is a whole, right entry. Yours then: cache_entry_free. */
int cache_read(cache_entry *out, cache *from, const char *key);
void cache_entry_free(cache_entry *entry);
/* The section of that name, NULL when there is none. Its data is followed by a 0. */
const cache_section *cache_find(const cache_entry *entry, const char *name);

/* Publishes an entry, in the place of one that is there. */
void cache_write(cache *to, const char *key, const cache_section *sections, int count);

/* One process at a time for a key, where the system allows: saves work, and nothing depends on it.
   Waits at most a minute. A holder that dies lets go. */
typedef struct cache_lock {
  cache *of;
  int file; /* -1: not held */
  char name[CACHE_FILE_NAME];
} cache_lock;
void cache_lock_take(cache_lock *out, cache *of, const char *key);
void cache_lock_drop(cache_lock *lock);

/* ---- For people who look after the folder ---- */

typedef struct cache_item {
  const char *file;
  const char *key; /* NULL when damaged, or not under its key's name */
  uint64_t bytes;
  int64_t made, last_used; /* seconds since 1970 */
} cache_item;

/* The folder that cache_open chooses; yours: free(). NULL when none is wanted, or nothing names one.
   Looks at no disk. */
char *cache_choose(const char *dir);

/* Visits every entry, in no order; the items last for the visit. Damaged ones too. */
void cache_visit(cache *of, void (*visit)(void *to, const cache_item *item), void *to);

/* Removes damaged entries, leftovers of processes that died, and then the entries least lately used
   until the rest takes at most `bytes`. Gives the bytes removed. */
uint64_t cache_prune(cache *of, uint64_t bytes);

#endif
