/* template_digest.c: walks the embedded templates and an overlay folder in one order. */
#include "template_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "error.h"

/* A folder given by mistake may hold anything; the bundle reads no larger file. */
enum { MOST_FILES = 4096, LARGEST_FILE = 4 << 20 };

extern const char engine_source[], sandbox_source[];
extern const size_t engine_source_bytes, sandbox_source_bytes;

/* Threads that come at first at the same time all compute the same; one of them keeps it. */
static fa_status digest_embedded(digest *out) {
  static digest kept;
  static atomic_int stage; /* 0: not kept, 1: being kept, 2: kept */
  int unkept = 0;
  if (atomic_load_explicit(&stage, memory_order_acquire) == 2) {
    *out = kept;
    return FA_OK;
  }
  digest_list *list = digest_list_new();
  if (!list) return fail(FA_NO_MEMORY, "templates: out of memory");
  digest_list_add(list, "engine", engine_source, engine_source_bytes);
  digest_list_add(list, "sandbox", sandbox_source, sandbox_source_bytes);
  for (size_t i = 0; i < bundle_embedded_count; ++i) {
    const bundle_file *file = &bundle_embedded[i];
    digest_list_add(list, file->name, file->text, file->bytes);
  }
  *out = digest_list_end(list);
  if (atomic_compare_exchange_strong(&stage, &unkept, 1)) {
    kept = *out;
    atomic_store_explicit(&stage, 2, memory_order_release);
  }
  return FA_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b) {
  return strcmp((*a)->fts_name, (*b)->fts_name);
}

static fa_status add_file(digest_list *to, const FTSENT *entry, const char *name) {
  size_t size = (size_t)entry->fts_statp->st_size, used = 0;
  if (size > LARGEST_FILE) size = 0;
  char *text = malloc(size + 1);
  int file = open(entry->fts_accpath, O_RDONLY | O_CLOEXEC);
  ssize_t count = 1;
  while (text && file >= 0 && used < size && (count = read(file, text + used, size - used)) > 0)
    used += (size_t)count;
  fa_status status = FA_OK;
  if (!text) status = fail(FA_NO_MEMORY, "template_dir: out of memory");
  if (text && (file < 0 || count < 0))
    status = fail(FA_TEMPLATE, "%s: %s", entry->fts_path, strerror(errno));
  if (!status) digest_list_add(to, name, text, used);
  if (file >= 0) close(file);
  free(text);
  return status;
}

/* Hidden files and folders, such as version control's, are no templates. */
static fa_status add_overlay(digest_list *to, FTS *walk, const char *overlay) {
  fa_status status = FA_OK;
  int files = 0;
  for (FTSENT *entry; !status && (entry = fts_read(walk));) {
    int hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
    if (hidden) {
      fts_set(walk, entry, FTS_SKIP);
    } else if (entry->fts_info == FTS_F) {
      const char *name = entry->fts_path + strlen(overlay);
      status = ++files > MOST_FILES
                   ? fail(FA_INVALID, "template_dir: %s: more than %d files; not a template folder",
                          overlay, MOST_FILES)
                   : add_file(to, entry, name);
    } else if (entry->fts_level == 0 && entry->fts_errno) {
      status = fail(FA_INVALID, "template_dir: %s: %s", overlay, strerror(entry->fts_errno));
    }
  }
  return status;
}

fa_status template_digest(digest *out, const char *overlay) {
  digest embedded = {0, 0};
  fa_status status = digest_embedded(&embedded);
  *out = embedded;
  if (status || !overlay) return status;
  char *paths[] = {(char *)overlay, NULL};
  digest_list *list = digest_list_new();
  /* Opened to be read: fts_close leaks what was not. */
  FTS *walk = list ? fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, by_name) : NULL;
  if (!list || !walk) status = fail(FA_NO_MEMORY, "template_dir: out of memory");
  if (!status) digest_list_add(list, "embedded", &embedded, sizeof embedded);
  if (!status) status = add_overlay(list, walk, overlay);
  if (walk) fts_close(walk);
  if (list) *out = digest_list_end(list);
  return status;
}
