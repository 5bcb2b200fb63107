/* fuzz_files.c: see fuzz_files.h. */
#include "fuzz_files.h"

#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/render.h"
#include "gen/spec.h"

static char folder[64];
static pid_t owner;

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

static void remove_folder(void) {
  if (getpid() == owner) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_overlay(const char *name, const uint8_t *data, size_t bytes) {
  char path[256];
  if (!*folder) {
    const char *place = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    snprintf(folder, sizeof folder, "%s/fagen_fuzz_XXXXXX", place);
    FUZZ_CHECK(mkdtemp(folder));
    owner = getpid();
    atexit(remove_folder);
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  char *slash = strrchr(path, '/');
  *slash = '\0';
  mkdir(path, 0700);
  *slash = '/';
  FILE *file = fopen(path, "wb");
  FUZZ_CHECK(file && fwrite(data, 1, bytes, file) == bytes && !fclose(file));
  return folder;
}

void fuzz_render(const char *words, const char *overlay) {
  fa_spec spec = FA_SPEC_INIT, canonical;
  render_result result;
  FUZZ_CHECK(!fa_spec_parse(&spec, words) && !spec_canonicalise(&canonical, &spec));
  fa_status status = render_spec(&result, &canonical, overlay);
  if (status) {
    FUZZ_CHECK(strcmp(fa_status_name(status), "unknown status") && *fa_error_message());
    FUZZ_CHECK(!result.kernel.text && !result.launch.text);
    return;
  }
  FUZZ_CHECK(result.kernel.text && result.launch.text && result.keep && result.score);
  render_free(&result);
}
