/* nvrtc_library.c: finding NVRTC, and what tells its builds apart. */
#include "nvrtc_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "fork.h"

/* ---- The build of a library file ------------------------------------------------------------- */

/* The GNU build id among the notes of one segment, in hexadecimal; "" when there is none. */
static void find_build_id(char *out, size_t room, const char *notes, size_t bytes) {
  size_t at = 0;
  while (bytes >= sizeof(Elf64_Nhdr) && at <= bytes - sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    memcpy(&note, notes + at, sizeof note);
    size_t name_at = at + sizeof note, data_at = name_at + (note.n_namesz + 3u) / 4 * 4;
    if (data_at > bytes || note.n_descsz > bytes - data_at) return;
    int is_id = note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                !memcmp(notes + name_at, "GNU", 4) && note.n_descsz * 2 < room;
    for (size_t i = 0; is_id && i < note.n_descsz; ++i)
      snprintf(out + 2 * i, 3, "%02x", (unsigned char)notes[data_at + i]);
    if (is_id) return;
    at = data_at + (note.n_descsz + 3u) / 4 * 4;
  }
}

static void read_build_id(char *out, size_t room, int file) {
  Elf64_Ehdr head;
  char notes[4096];
  *out = '\0';
  if (pread(file, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG))
    return;
  for (int i = 0; i < head.e_phnum && !*out; ++i) {
    Elf64_Phdr segment;
    off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof segment);
    if (pread(file, &segment, sizeof segment, at) != sizeof segment) return;
    if (segment.p_type != PT_NOTE) continue;
    size_t bytes = segment.p_filesz < sizeof notes ? segment.p_filesz : sizeof notes;
    ssize_t count = pread(file, notes, bytes, (off_t)segment.p_offset);
    if (count > 0) find_build_id(out, room, notes, (size_t)count);
  }
}

void nvrtc_identity_of_file(char identity[NVRTC_IDENTITY], const char *version, const char *path) {
  char build_id[96] = "";
  struct stat info = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    read_build_id(build_id, sizeof build_id, file);
    fstat(file, &info);
    close(file);
  }
  if (*build_id)
    snprintf(identity, NVRTC_IDENTITY, "%s %s", version, build_id);
  else
    snprintf(identity, NVRTC_IDENTITY, "%s of %lld bytes", version, (long long)info.st_size);
}

/* ---- Finding it ------------------------------------------------------------------------------ */

/* Newest first: an older compiler does not know newer devices. */
static const char *const loader_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
static const char *const toolkit_variables[] = {"CUDA_HOME", "CUDA_PATH"};
static const char toolkit_default[] = "/usr/local/cuda";
enum { LOADER_NAMES = sizeof loader_names / sizeof *loader_names };

static void *open_in_toolkit(const char *toolkit) {
  char path[4096];
  if (!toolkit || !*toolkit) return NULL;
  if (snprintf(path, sizeof path, "%s/lib64/libnvrtc.so", toolkit) >= (int)sizeof path) return NULL;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *find_library(const char *path) {
  if (path) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *handle = NULL;
  for (int i = 0; !handle && i < LOADER_NAMES; ++i)
    handle = dlopen(loader_names[i], RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; !handle && i < 2; ++i) handle = open_in_toolkit(getenv(toolkit_variables[i]));
  return handle ? handle : open_in_toolkit(toolkit_default);
}

int nvrtc_is_loaded(const char *path) {
  void *handle = dlopen(path ? path : loader_names[0], RTLD_LAZY | RTLD_NOLOAD);
  if (handle) dlclose(handle);
  return handle != NULL;
}

static const struct {
  const char *symbol;
  size_t offset;
} functions[] = {
#define NVRTC_SYMBOL(member, symbol, parameters) {symbol, offsetof(nvrtc, member)},
    NVRTC_FUNCTIONS(NVRTC_SYMBOL)};

static fa_status find_functions(nvrtc *to, void *handle) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    void *found = dlsym(handle, functions[i].symbol);
    if (!found)
      return fail(FA_NO_NVRTC, "%s: has no %s; NVRTC 12.0 or later is needed", to->path,
                  functions[i].symbol);
    memcpy((char *)to + functions[i].offset, &found, sizeof found);
  }
  return FA_OK;
}

/* NVRTC looks for its builtins by the loader's path alone, not beside itself. Once opened from
   here, by whichever path, they are found by name. Failing is no error yet: they may be on that
   path. */
static void open_builtins(const nvrtc *library) {
  char path[4096];
  const char *slash = strrchr(library->path, '/');
  if (!slash) return;
  snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%s", (int)(slash - library->path),
           library->path, library->version);
  dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static fa_status fill(nvrtc *to, void *handle, const char *asked) {
  struct link_map *map = NULL;
  int major = 0, minor = 0;
  if (!dlinfo(handle, RTLD_DI_LINKMAP, &map)) to->path = strdup(map->l_name);
  to->asked = strdup(asked);
  if (!to->path || !to->asked) return fail(FA_NO_MEMORY, "NVRTC: out of memory");
  fa_status status = find_functions(to, handle);
  if (status) return status;
  to->Version(&major, &minor);
  snprintf(to->version, sizeof to->version, "%d.%d", major, minor);
  nvrtc_identity_of_file(to->identity, to->version, to->path);
  open_builtins(to);
  return FA_OK;
}

static fa_status open_library(nvrtc **out, const char *path) {
  *out = NULL;
  void *handle = find_library(path);
  if (!handle)
    return fail(FA_NO_NVRTC,
                "NVRTC, the CUDA run-time compiler, cannot be opened: %s (FA_NVRTC names its file)",
                dlerror());
  nvrtc *opened = calloc(1, sizeof *opened);
  fa_status status =
      opened ? fill(opened, handle, path ? path : "") : fail(FA_NO_MEMORY, "NVRTC: out of memory");
  if (!status) {
    *out = opened;
    return FA_OK;
  }
  dlclose(handle);
  if (opened) {
    free(opened->path);
    free(opened->asked);
  }
  free(opened);
  return status;
}

fa_status nvrtc_open(const nvrtc **out, const char *path) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static nvrtc *all;
  fa_status status = FA_OK;
  if (path && !*path) path = NULL;
  fork_frees(&lock);
  pthread_mutex_lock(&lock);
  nvrtc *found = all;
  while (found && strcmp(found->asked, path ? path : "")) found = found->next;
  if (!found && !(status = open_library(&found, path))) {
    found->next = all;
    all = found;
  }
  pthread_mutex_unlock(&lock);
  *out = found;
  return status;
}

const char *nvrtc_identity(const nvrtc *library) {
  return library->identity;
}

int nvrtc_version_of(const char *identity) {
  int major = 0, minor = 0;
  return sscanf(identity, "%d.%d", &major, &minor) == 2 ? 1000 * major + 10 * minor : 0;
}

const char *nvrtc_path(const nvrtc *library) {
  return library->path;
}
