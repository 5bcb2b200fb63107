/* overlay.c: see overlay.h. */
#include "overlay.h"

#include "expect.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void overlay_create(overlay *out) {
  const char *folder = getenv("TMPDIR");
  if (!folder || strlen(folder) > 40) folder = "/tmp";
  snprintf(out->path, sizeof out->path, "%s/fagen_XXXXXX", folder);
  assert_non_null(mkdtemp(out->path));
}

const char *overlay_path(const overlay *of, const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", of->path, name);
  return path;
}

void overlay_write_bytes(const overlay *to, const char *name, const void *content, size_t bytes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", to->path, name);
  for (char *slash = path + strlen(to->path); (slash = strchr(slash + 1, '/'));) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(content, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

void overlay_write(const overlay *to, const char *name, const char *text) {
  overlay_write_bytes(to, name, text, strlen(text));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

void overlay_remove(overlay *of) {
  if (of->path[0]) nftw(of->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  of->path[0] = '\0';
}

char *read_whole_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s cannot be opened", path);
  char *text = NULL;
  size_t bytes = 0;
  FILE *copy = open_memstream(&text, &bytes);
  assert_non_null(copy);
  for (int c; (c = fgetc(file)) != EOF;) fputc(c, copy);
  fclose(copy);
  fclose(file);
  return text;
}
