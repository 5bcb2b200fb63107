/* bundle.c: template text, from the overlay folder first, then from what is embedded. */
#include "bundle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

/* No template is near this size; a folder given by mistake may hold anything. */
enum { LARGEST_FILE = 4 << 20 };

static const char variants_folder[] = "variants/";
static const char lua_ending[] = ".lua";

static const bundle_file *find_embedded(const char *name) {
  for (size_t i = 0; i < bundle_embedded_count; ++i)
    if (!strcmp(bundle_embedded[i].name, name)) return &bundle_embedded[i];
  return NULL;
}

static char *join(const char *folder, const char *name) {
  size_t bytes = strlen(folder) + strlen(name) + 2;
  char *path = malloc(bytes);
  if (path) snprintf(path, bytes, "%s/%s", folder, name);
  return path;
}

static fa_status no_memory(const char *what) {
  return fail(FA_NO_MEMORY, "%s: out of memory", what);
}

static fa_status check_overlay(const char *overlay) {
  struct stat info;
  if (stat(overlay, &info))
    return fail(FA_INVALID, "template_dir: %s: %s", overlay, strerror(errno));
  if (!S_ISDIR(info.st_mode)) return fail(FA_INVALID, "template_dir: %s: not a folder", overlay);
  return FA_OK;
}

/* Names stay below the templates folder. */
static fa_status check_name(const char *name) {
  if (*name && *name != '/' && !strstr(name, "..")) return FA_OK;
  return fail(FA_TEMPLATE, "template '%.80s': a name is a path below templates/ without '..'",
              name);
}

static void close_keeping_errno(int file) {
  int reason = errno;
  close(file);
  errno = reason;
}

static fa_status read_stream(char **text, size_t *bytes, FILE *file, const char *path) {
  char *buffer = malloc(LARGEST_FILE + 1);
  if (!buffer) return no_memory(path);
  size_t used = fread(buffer, 1, LARGEST_FILE + 1, file);
  if (ferror(file) || used > LARGEST_FILE) {
    fa_status status = ferror(file) ? fail(FA_TEMPLATE, "%s: %s", path, strerror(errno))
                                    : fail(FA_TEMPLATE, "%s: larger than 4 MiB", path);
    free(buffer);
    return status;
  }
  buffer[used] = '\0';
  char *fitted = realloc(buffer, used + 1);
  *text = fitted ? fitted : buffer;
  *bytes = used;
  return FA_OK;
}

/* A plain file: opening a pipe would wait for its writer. */
static FILE *open_file(const char *path) {
  struct stat info;
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return NULL;
  FILE *stream = NULL;
  if (!fstat(file, &info) && !S_ISREG(info.st_mode))
    errno = S_ISDIR(info.st_mode) ? EISDIR : ENXIO;
  else
    stream = fdopen(file, "rb");
  if (!stream) close_keeping_errno(file);
  return stream;
}

/* Reads OVERLAY/name; FA_OK with *text NULL when there is no such file. */
static fa_status read_overlay(char **text, size_t *bytes, char **found_path, const char *overlay,
                              const char *name) {
  fa_status status = check_overlay(overlay);
  if (status) return status;
  char *path = join(overlay, name);
  if (!path) return no_memory(name);
  FILE *file = open_file(path);
  if (file) {
    status = read_stream(text, bytes, file, path);
    fclose(file);
  } else if (errno != ENOENT && errno != ENOTDIR) {
    status = fail(FA_TEMPLATE, "%s: %s", path, strerror(errno));
  }
  if (file && !status && found_path)
    *found_path = path;
  else
    free(path);
  return status;
}

static fa_status copy_embedded(char **text, size_t *bytes, char **found_path, const char *name) {
  const bundle_file *file = find_embedded(name);
  if (!file) return fail(FA_TEMPLATE, "template '%s': no such file", name);
  *text = malloc(file->bytes + 1);
  if (*text && found_path && !(*found_path = join("templates", name))) {
    free(*text);
    *text = NULL;
  }
  if (!*text) return no_memory(name);
  memcpy(*text, file->text, file->bytes + 1);
  *bytes = file->bytes;
  return FA_OK;
}

fa_status bundle_read(char **text, size_t *bytes, char **found_path, const char *overlay,
                      const char *name) {
  *text = NULL;
  *bytes = 0;
  if (found_path) *found_path = NULL;
  fa_status status = check_name(name);
  if (!status && overlay) status = read_overlay(text, bytes, found_path, overlay, name);
  if (status || *text) return status;
  return copy_embedded(text, bytes, found_path, name);
}

int bundle_has(const char *overlay, const char *name) {
  struct stat info;
  char *path = overlay ? join(overlay, name) : NULL;
  int found = path && !stat(path, &info) && S_ISREG(info.st_mode);
  free(path);
  return found || find_embedded(name) != NULL;
}

/* ---- The list of variants ------------------------------------------------------------------- */

/* The variant's name when `file` is NAME.lua, as a new string. */
static char *variant_name(const char *file) {
  size_t length = strlen(file), ending = sizeof lua_ending - 1;
  if (length <= ending || strcmp(file + length - ending, lua_ending)) return NULL;
  return strndup(file, length - ending);
}

static fa_status add_name(bundle_names *to, const char *file) {
  char *name = variant_name(file);
  if (!name) return FA_OK;
  size_t at = 0;
  while (at < to->count && strcmp(to->names[at], name) < 0) ++at;
  if (at < to->count && !strcmp(to->names[at], name)) {
    free(name);
    return FA_OK;
  }
  char **grown = realloc(to->names, (to->count + 1) * sizeof *grown);
  if (!grown) {
    free(name);
    return no_memory("variants");
  }
  memmove(grown + at + 1, grown + at, (to->count - at) * sizeof *grown);
  grown[at] = name;
  to->names = grown;
  ++to->count;
  return FA_OK;
}

static fa_status add_overlay_names(bundle_names *to, const char *overlay) {
  fa_status status = check_overlay(overlay);
  char *path = status ? NULL : join(overlay, "variants");
  DIR *folder = path ? opendir(path) : NULL;
  if (folder)
    for (struct dirent *entry; !status && (entry = readdir(folder));)
      status = add_name(to, entry->d_name);
  if (folder) closedir(folder);
  free(path);
  return status;
}

fa_status bundle_variants(bundle_names *out, const char *overlay) {
  out->names = NULL;
  out->count = 0;
  fa_status status = overlay ? add_overlay_names(out, overlay) : FA_OK;
  size_t prefix = sizeof variants_folder - 1;
  for (size_t i = 0; !status && i < bundle_embedded_count; ++i)
    if (!strncmp(bundle_embedded[i].name, variants_folder, prefix))
      status = add_name(out, bundle_embedded[i].name + prefix);
  if (status) bundle_names_free(out);
  return status;
}

void bundle_names_free(bundle_names *names) {
  for (size_t i = 0; i < names->count; ++i) free(names->names[i]);
  free(names->names);
  names->names = NULL;
  names->count = 0;
}
