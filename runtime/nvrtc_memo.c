/* nvrtc_memo.c: which NVRTC would compile, remembered in the cache folder: a warm start needs its
   identity for the key and nothing else of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "nvrtc_library.h"

/* All that decides which file the loader's names lead to. */
static void describe_loader(char *out, size_t bytes) {
  static const char *const variables[] = {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"};
  struct stat info = {0};
  stat("/etc/ld.so.cache", &info);
  int used = snprintf(out, bytes, "%lld.%ld %lld", (long long)info.st_mtim.tv_sec,
                      info.st_mtim.tv_nsec, (long long)info.st_size);
  for (int i = 0; i < 3 && used >= 0 && (size_t)used < bytes; ++i) {
    const char *value = getenv(variables[i]);
    used += snprintf(out + used, bytes - (size_t)used, " %s", value ? value : "");
  }
}

typedef struct memo {
  char key[4096], loader[4096];
  cache_entry entry;
  const char *identity; /* NULL: nothing is remembered */
} memo;

static void recall(memo *m, const char *path, cache *memory) {
  memset(m, 0, sizeof *m);
  snprintf(m->key, sizeof m->key, "fagen nvrtc 1\nasked %s\n", path ? path : "");
  describe_loader(m->loader, sizeof m->loader);
  if (!cache_read(&m->entry, memory, m->key)) return;
  const cache_section *identity = cache_find(&m->entry, "identity");
  if (identity && identity->bytes < NVRTC_IDENTITY) m->identity = identity->data;
}

/* Whether the same search would find the same file with the same build. */
static int is_fresh(const memo *m) {
  const cache_section *loader = cache_find(&m->entry, "loader");
  const cache_section *path = cache_find(&m->entry, "path");
  const cache_section *version = cache_find(&m->entry, "version");
  char now[NVRTC_IDENTITY];
  if (!m->identity || !loader || !path || !version || strcmp(loader->data, m->loader)) return 0;
  nvrtc_identity_of_file(now, version->data, path->data);
  return !strcmp(now, m->identity);
}

static void remember(const memo *m, const nvrtc *library, cache *memory) {
  const cache_section sections[] = {
      {"identity", library->identity, strlen(library->identity)},
      {"version", library->version, strlen(library->version)},
      {"path", library->path, strlen(library->path)},
      {"loader", m->loader, strlen(m->loader)},
  };
  cache_write(memory, m->key, sections, sizeof sections / sizeof *sections);
}

fa_status nvrtc_identify(char identity[NVRTC_IDENTITY], const char *path, cache *memory) {
  const nvrtc *library = NULL;
  fa_status status = FA_OK;
  memo *m = malloc(sizeof *m);
  if (!m) return fail(FA_NO_MEMORY, "NVRTC: out of memory");
  if (path && !*path) path = NULL;
  recall(m, path, memory);
  if (nvrtc_is_loaded(path) || !is_fresh(m)) {
    status = nvrtc_open(&library, path);
    if (library && !is_fresh(m)) remember(m, library, memory);
  }
  const char *found = library ? library->identity : m->identity;
  if (found) {
    snprintf(identity, NVRTC_IDENTITY, "%s", found);
    status = FA_OK;
  }
  cache_entry_free(&m->entry);
  free(m);
  return status;
}
