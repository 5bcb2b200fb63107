/* test_cache.c: the disk cache of GPU kernels, through the one function that builds or loads. Every
   build runs in a process of its own, with a compiler that takes no time (fake_nvrtc.c). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "child_build.h"
#include "runtime/cache.h"
#include "support/expect.h"
#include "support/overlay.h"
#include "trust/report.h"

#define SPEC "fwd sm80 bf16 d64"

static overlay folder; /* the cache, and beside it what a test needs */
static char cache_dir[128], counter[128];

static int make_folder(void **state) {
  (void)state;
  overlay_create(&folder);
  snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder.path);
  snprintf(counter, sizeof counter, "%s/count", folder.path);
  setenv("FAKE_NVRTC_COUNT", counter, 1);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  chmod(cache_dir, 0700);
  overlay_remove(&folder);
  unsetenv("FAKE_NVRTC_COUNT");
  unsetenv("FAKE_NVRTC_MS");
  return 0;
}

static child_request request_of(const char *words) {
  return (child_request){
      .words = words, .cache = cache_dir, .overlay = PROBE_OVERLAY, .nvrtc = FAKE_NVRTC};
}

static long compilations(void) {
  struct stat info;
  return stat(counter, &info) ? 0 : (long)info.st_size;
}

static void expect_built(const char *what, const child_outcome *got, int origin) {
  if (!got->died && !got->status && got->origin == origin) return;
  print_error("%s: died %d, status %s, origin %d (wanted %d): %s\n", what, got->died,
              fa_status_name(got->status), got->origin, origin, got->message);
  fail();
}

static child_outcome expect_build(const char *what, const child_request *request, int origin) {
  child_outcome got = child_build(request);
  expect_built(what, &got, origin);
  return got;
}

static void expect_warnings(const char *what, const child_outcome *got, int wanted) {
  if (got->warnings == wanted) return;
  print_error("%s: %d warnings, wanted %d:\n%s\n", what, got->warnings, wanted, got->told);
  fail();
}

static void expect_same_code(const char *what, const child_outcome *a, const child_outcome *b) {
  if (!memcmp(&a->code, &b->code, sizeof a->code) &&
      !memcmp(&a->source, &b->source, sizeof a->source))
    return;
  print_error("%s: the code or its source differs\n", what);
  fail();
}

/* The one file of the cache that holds a kernel, and not what is remembered of NVRTC. */
typedef struct kernel_files {
  char names[8][64];
  int count;
} kernel_files;

static void note_kernel(void *to, const cache_item *item) {
  kernel_files *files = to;
  if (item->key && strncmp(item->key, "fagen kernel", 12)) return;
  snprintf(files->names[files->count++], sizeof files->names[0], "%s", item->file);
}

static kernel_files list_kernels(void) {
  kernel_files files = {.count = 0};
  cache *open = cache_open(cache_dir, log_to_stderr(LOG_OFF));
  assert_non_null(open);
  cache_visit(open, note_kernel, &files);
  cache_close(open);
  return files;
}

/* ---- What a warm start does ------------------------------------------------------------------ */

static void a_second_process_renders_and_compiles_nothing(void **state) {
  (void)state;
  child_request request = request_of(SPEC);
  child_outcome cold = expect_build("cold", &request, FA_BUILT);
  child_outcome warm = expect_build("warm", &request, FA_FROM_DISK);
  expect_same_code("warm", &cold, &warm);
  assert_true(cold.render_ms > 0);
  assert_true(warm.render_ms == 0 && warm.compile_ms == 0);
  assert_true(cold.nvrtc_was_opened);
  assert_false(warm.nvrtc_was_opened);
  expect_warnings("warm", &warm, 0);
  assert_int_equal(compilations(), 1);
}

static void copy_file(const char *to, const char *from) {
  char command[1024];
  snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
  assert_int_equal(system(command), 0);
}

static void a_warm_cache_serves_where_nvrtc_is_gone(void **state) {
  (void)state;
  char library[128];
  child_request request = request_of(SPEC), other = request_of("fwd sm80 bf16 d72");
  snprintf(library, sizeof library, "%s/libnvrtc.so", folder.path);
  request.nvrtc = other.nvrtc = library;
  copy_file(library, FAKE_NVRTC);
  expect_build("cold", &request, FA_BUILT);
  unlink(library);
  expect_build("warm", &request, FA_FROM_DISK);
  child_outcome cold = child_build(&other);
  assert_int_equal(cold.status, FA_NO_NVRTC);
  expect_words("cold without NVRTC", cold.message, "cannot be opened|FA_NVRTC");
}

/* ---- What makes another key ------------------------------------------------------------------ */

static void another_compiler_makes_another_entry(void **state) {
  (void)state;
  char library[128];
  child_request request = request_of(SPEC);
  snprintf(library, sizeof library, "%s/libnvrtc.so", folder.path);
  request.nvrtc = library;
  copy_file(library, FAKE_NVRTC);
  expect_build("first compiler", &request, FA_BUILT);
  copy_file(library, FAKE_NVRTC_NEXT);
  expect_build("next compiler at the same path", &request, FA_BUILT);
  expect_build("next compiler again", &request, FA_FROM_DISK);
  copy_file(library, FAKE_NVRTC);
  expect_build("first compiler again", &request, FA_FROM_DISK);
  assert_int_equal(compilations(), 2);
}

static void another_arch_or_target_makes_another_entry(void **state) {
  (void)state;
  static const char *const words[] = {SPEC, SPEC " cc86", SPEC " cc90", "fwd sm90 bf16 d64",
                                      "fwd sm80 f16 d64"};
  for (size_t round = 0; round < 2; ++round)
    for (size_t i = 0; i < COUNT_OF(words); ++i) {
      child_request request = request_of(words[i]);
      expect_build(words[i], &request, round ? FA_FROM_DISK : FA_BUILT);
    }
}

static void an_edited_template_makes_another_entry(void **state) {
  (void)state;
  overlay edited;
  overlay_create(&edited);
  static const char *const files[] = {"sm80/fwd.cu.lua", "sm80/steps.c.lua", "sm80/tiles.lua",
                                      "probe/args.c.lua"};
  for (size_t i = 0; i < COUNT_OF(files); ++i) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", PROBE_OVERLAY, files[i]);
    char *text = read_whole_file(path);
    overlay_write(&edited, files[i], text);
    free(text);
  }
  child_request request = request_of(SPEC);
  request.overlay = edited.path;
  expect_build("as it was", &request, FA_BUILT);
  char *before = read_whole_file(overlay_path(&edited, "probe/args.c.lua"));
  overlay_write(&edited, "probe/args.c.lua", "% -- edited\n");
  child_outcome broken = child_build(&request);
  assert_int_equal(broken.origin, FA_BUILT); /* never the entry of the text before the edit */
  overlay_write(&edited, "probe/args.c.lua", before);
  expect_build("as it was again", &request, FA_FROM_DISK);
  overlay_write(&edited, "unused.lua", "-- new");
  expect_build("with a file more", &request, FA_BUILT);
  overlay_write(&edited, ".git/objects", "of no concern");
  expect_build("with a hidden file", &request, FA_FROM_DISK);
  free(before);
  overlay_remove(&edited);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static void damage(const char *name, long keep, long flip) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", cache_dir, name);
  int file = open(path, O_RDWR);
  assert_true(file >= 0);
  if (keep >= 0) assert_int_equal(ftruncate(file, keep), 0);
  if (flip >= 0) {
    unsigned char byte;
    assert_int_equal(pread(file, &byte, 1, flip), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(file, &byte, 1, flip), 1);
  }
  close(file);
}

static void a_damaged_entry_is_built_again_with_one_warning(void **state) {
  (void)state;
  child_request request = request_of(SPEC), other = request_of("fwd sm80 f16 d64");
  child_outcome first = expect_build("cold", &request, FA_BUILT);
  kernel_files files = list_kernels();
  assert_int_equal(files.count, 1);
  expect_build("another entry", &other, FA_BUILT);
  struct stat info;
  char path[256];
  snprintf(path, sizeof path, "%s/%s", cache_dir, files.names[0]);
  assert_int_equal(stat(path, &info), 0);
  const long size = (long)info.st_size;
  const long cut[] = {0, 1, size / 2, size - 1}, flipped[] = {0, 9, 30, 60, size / 2, size - 1};
  for (size_t i = 0; i < COUNT_OF(cut) + COUNT_OF(flipped); ++i) {
    int cutting = i < COUNT_OF(cut);
    long at = cutting ? cut[i] : flipped[i - COUNT_OF(cut)];
    char what[64];
    snprintf(what, sizeof what, "%s at %ld of %ld", cutting ? "cut" : "flipped", at, size);
    damage(files.names[0], cutting ? at : -1, cutting ? -1 : at);
    child_outcome again = expect_build(what, &request, FA_BUILT);
    expect_same_code(what, &first, &again);
    expect_warnings(what, &again, 1);
    expect_words(what, again.told, "damaged");
    expect_build(what, &request, FA_FROM_DISK);
  }
  expect_build("the other entry", &other, FA_FROM_DISK);
}

/* As after a folder was copied together by hand, or a name collides. */
static void an_entry_of_something_else_is_not_loaded(void **state) {
  (void)state;
  child_request here = request_of(SPEC " cc90"), elsewhere = request_of(SPEC " cc86");
  child_outcome first = expect_build("cc90", &here, FA_BUILT);
  kernel_files files = list_kernels();
  expect_build("cc86", &elsewhere, FA_BUILT);
  kernel_files both = list_kernels();
  assert_int_equal(both.count, 2);
  const char *other = both.names[!strcmp(both.names[0], files.names[0])];
  char to[256], from[256];
  snprintf(to, sizeof to, "%s/%s", cache_dir, files.names[0]);
  snprintf(from, sizeof from, "%s/%s", cache_dir, other);
  copy_file(to, from);
  child_outcome again = expect_build("cc90 where cc86's entry is", &here, FA_BUILT);
  expect_same_code("cc90 where cc86's entry is", &first, &again);
  expect_build("cc90 put right", &here, FA_FROM_DISK);
  damage(files.names[0], -1, 7); /* the version of the layout */
  again = expect_build("cc90 of another version", &here, FA_BUILT);
  expect_same_code("cc90 of another version", &first, &again);
}

static void a_failed_compilation_leaves_no_entry(void **state) {
  (void)state;
  child_request request = request_of(SPEC);
  setenv("FAKE_NVRTC_ERROR", "6", 1);
  assert_int_equal(child_build(&request).status, FA_COMPILE);
  setenv("FAKE_NVRTC_ERROR", "0", 1);
  setenv("FAKE_NVRTC_EMPTY", "1", 1);
  assert_int_equal(child_build(&request).status, FA_COMPILE);
  unsetenv("FAKE_NVRTC_EMPTY");
  unsetenv("FAKE_NVRTC_ERROR");
  assert_int_equal(list_kernels().count, 0);
  expect_build("after the failures", &request, FA_BUILT);
}

/* ---- Many processes -------------------------------------------------------------------------- */

static void many_processes_compile_one_key_once(void **state) {
  (void)state;
  enum { PROCESSES = 64 };
  child running[PROCESSES];
  child_request request = request_of(SPEC);
  child_outcome first = {.origin = 0};
  int built = 0;
  setenv("FAKE_NVRTC_MS", "300", 1);
  for (int i = 0; i < PROCESSES; ++i) running[i] = child_start(&request);
  for (int i = 0; i < PROCESSES; ++i) {
    child_outcome got = child_finish(&running[i]);
    built += got.origin == FA_BUILT;
    expect_built("one of many", &got, got.origin == FA_BUILT ? FA_BUILT : FA_FROM_DISK);
    expect_warnings("one of many", &got, 0);
    if (!i) first = got;
    expect_same_code("one of many", &first, &got);
  }
  report_line("processes %d %ld %d", PROCESSES, compilations(), built != 1);
  assert_int_equal(built, 1);
  assert_int_equal(compilations(), 1);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void a_killed_compiler_holds_nobody_up(void **state) {
  (void)state;
  child_request request = request_of(SPEC);
  setenv("FAKE_NVRTC_MS", "20000", 1);
  child victim = child_start(&request);
  while (!compilations()) usleep(1000); /* it holds the lock and compiles */
  kill(victim.pid, SIGKILL);
  setenv("FAKE_NVRTC_MS", "0", 1);
  double start = seconds();
  expect_build("after the death", &request, FA_BUILT);
  double waited = seconds() - start;
  assert_int_equal(child_finish(&victim).died, SIGKILL);
  if (waited > 5) print_error("waited %.1f s for a dead process\n", waited);
  assert_true(waited < 5);
}

/* ---- The folder ------------------------------------------------------------------------------ */

/* Root may do everything; a test of permissions runs as nobody. */
static void become_nobody(const void *unused) {
  (void)unused;
  if (geteuid() == 0 && (setegid(65534) || seteuid(65534))) abort();
}

static int owner_of_tests(void) {
  return geteuid() == 0 ? 65534 : (int)geteuid();
}

static void give_to_nobody(const char *path) {
  if (geteuid() == 0) assert_int_equal(chown(path, 65534, 65534), 0);
}

/* The source tree may stand where nobody may not look, such as below root's home: what the build reads
   is copied to the test's folder. */
static child_request request_as_nobody(void) {
  static char templates[160], library[160], command[512];
  child_request request = request_of(SPEC);
  snprintf(templates, sizeof templates, "%s/probes", folder.path);
  snprintf(library, sizeof library, "%s/libfake_nvrtc.so", folder.path);
  snprintf(command, sizeof command, "cp -r '%s' '%s' && chmod -R a+rX '%s'", request.overlay,
           templates, templates);
  assert_int_equal(system(command), 0);
  snprintf(command, sizeof command, "cp '%s' '%s' && chmod a+rx '%s'", request.nvrtc, library,
           library);
  assert_int_equal(system(command), 0);
  request.overlay = templates;
  request.nvrtc = library;
  request.prepare = become_nobody;
  chmod(folder.path, 0755);
  unsetenv("FAKE_NVRTC_COUNT"); /* in a folder that nobody may not write to */
  return request;
}

static void expect_uncached(const char *what, const child_request *request, int warnings) {
  for (int round = 0; round < 2; ++round) {
    child_outcome got = expect_build(what, request, FA_BUILT);
    expect_warnings(what, &got, warnings);
  }
}

static void a_new_folder_is_private(void **state) {
  (void)state;
  struct stat info;
  child_request request = request_of(SPEC);
  char deep[256];
  snprintf(deep, sizeof deep, "%s/a/b/c", cache_dir);
  request.cache = deep;
  umask(0);
  expect_build("cold", &request, FA_BUILT);
  umask(022);
  assert_int_equal(stat(deep, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  expect_build("warm", &request, FA_FROM_DISK);
}

static void a_read_only_folder_is_read(void **state) {
  (void)state;
  child_request request = request_as_nobody(), other = request;
  mkdir(cache_dir, 0700);
  give_to_nobody(cache_dir);
  expect_build("cold", &request, FA_BUILT);
  chmod(cache_dir, 0555);
  expect_build("warm", &request, FA_FROM_DISK);
  other.words = "fwd sm80 f16 d64";
  child_outcome got = expect_build("cold in a read-only folder", &other, FA_BUILT);
  expect_warnings("cold in a read-only folder", &got, 1);
  expect_words("cold in a read-only folder", got.told, "not kept");
  if (owner_of_tests() == 65534) chmod(cache_dir, 0700);
}

static void a_folder_of_others_is_not_used(void **state) {
  (void)state;
  child_request request = request_as_nobody();
  mkdir(cache_dir, 0777);
  give_to_nobody(cache_dir);
  chmod(cache_dir, 0770);
  expect_uncached("group-writable", &request, 1);
  chmod(cache_dir, 0702);
  expect_uncached("world-writable", &request, 1);
  chmod(cache_dir, 0700);
  expect_build("private", &request, FA_BUILT);
  expect_build("private", &request, FA_FROM_DISK);
  if (geteuid()) return;
  assert_int_equal(chown(cache_dir, 0, 0), 0);
  chmod(cache_dir, 0755);
  expect_uncached("another user's", &request, 1);
}

static void a_link_or_a_file_is_no_folder(void **state) {
  (void)state;
  char link[128], file[128];
  child_request request = request_of(SPEC);
  snprintf(link, sizeof link, "%s/link", folder.path);
  snprintf(file, sizeof file, "%s/file", folder.path);
  mkdir(cache_dir, 0700);
  assert_int_equal(symlink(cache_dir, link), 0);
  request.cache = link;
  expect_uncached("a symbolic link", &request, 1);
  close(open(file, O_CREAT | O_WRONLY, 0600));
  request.cache = file;
  expect_uncached("a file", &request, 1);
}

static void a_foreign_entry_is_not_used(void **state) {
  (void)state;
  child_request request = request_of(SPEC);
  expect_build("cold", &request, FA_BUILT);
  kernel_files files = list_kernels();
  char path[256], moved[256];
  snprintf(path, sizeof path, "%s/%s", cache_dir, files.names[0]);
  snprintf(moved, sizeof moved, "%s/moved", folder.path);
  assert_int_equal(chmod(path, 0666), 0);
  child_outcome got = expect_build("an entry that all may write", &request, FA_BUILT);
  expect_warnings("an entry that all may write", &got, 1);
  assert_int_equal(rename(path, moved), 0);
  assert_int_equal(symlink(moved, path), 0);
  got = expect_build("an entry that is a link", &request, FA_BUILT);
  expect_warnings("an entry that is a link", &got, 1);
  expect_build("put right", &request, FA_FROM_DISK);
}

static void set_homes(const void *values) {
  const char *const *v = values;
  static const char *const names[] = {"FA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  for (int i = 0; i < 3; ++i) v[i] ? setenv(names[i], v[i], 1) : unsetenv(names[i]);
}

static void the_environment_names_the_folder(void **state) {
  (void)state;
  char home[128], xdg[128], own[128], at[256];
  snprintf(home, sizeof home, "%s/home", folder.path);
  snprintf(xdg, sizeof xdg, "%s/xdg", folder.path);
  snprintf(own, sizeof own, "%s/own", folder.path);
  mkdir(home, 0700);
  const struct {
    const char *values[3], *folder;
  } cases[] = {
      {{own, xdg, home}, own},          {{NULL, xdg, home}, xdg},
      {{NULL, "relative", home}, home}, {{NULL, NULL, home}, home},
      {{"", xdg, home}, NULL},          {{NULL, NULL, NULL}, NULL},
      {{NULL, NULL, "relative"}, NULL}, {{NULL, NULL, "/nonexistent"}, NULL},
  };
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    child_request request = request_of(SPEC);
    request.cache = NULL;
    request.prepare = set_homes;
    request.prepared = cases[i].values;
    char what[32];
    snprintf(what, sizeof what, "case %zu", i);
    int lacks_home = cases[i].values[2] && !strcmp(cases[i].values[2], "/nonexistent");
    if (!cases[i].folder) {
      expect_uncached(what, &request, lacks_home);
      continue;
    }
    const char *below = cases[i].folder == own   ? ""
                        : cases[i].folder == xdg ? "/fagen"
                                                 : "/.cache/fagen";
    snprintf(at, sizeof at, "%s%s", cases[i].folder, below);
    expect_build(what, &request, access(at, F_OK) ? FA_BUILT : FA_FROM_DISK);
    assert_int_equal(access(at, F_OK), 0);
    expect_build(what, &request, FA_FROM_DISK);
  }
  assert_int_not_equal(access("/nonexistent", F_OK), 0);
}

static void a_very_long_path_is_no_folder(void **state) {
  (void)state;
  char *path = malloc(6000);
  memset(path, 'x', 5999);
  path[5999] = '\0';
  for (int i = 0; i < 5999; i += 100) path[i] = '/';
  child_request request = request_of(SPEC);
  request.cache = path;
  expect_uncached("6000 characters", &request, 1);
  free(path);
}

/* Nearly as long as the system takes. */
static void a_long_path_is_a_folder(void **state) {
  (void)state;
  enum { DEPTH = 15, NAME = 250 };
  char path[4096];
  size_t length = (size_t)snprintf(path, sizeof path, "%s", cache_dir);
  for (int i = 0; i < DEPTH; ++i) {
    path[length++] = '/';
    memset(path + length, 'x', NAME);
    length += NAME;
  }
  path[length] = '\0';
  child_request request = request_of(SPEC);
  request.cache = path;
  child_outcome got = expect_build("a long path", &request, FA_BUILT);
  expect_warnings("a long path", &got, 0);
  expect_build("a long path", &request, FA_FROM_DISK);
}

static void forbid_writing(const void *unused) {
  (void)unused;
  const struct rlimit none = {512, 512};
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &none)) abort();
}

static void a_full_disk_costs_the_cache_alone(void **state) {
  (void)state;
  child_request request = request_of(SPEC);
  unsetenv("FAKE_NVRTC_COUNT");
  request.prepare = forbid_writing;
  child_outcome got = expect_build("a full disk", &request, FA_BUILT);
  expect_warnings("a full disk", &got, 1);
  request.prepare = NULL;
  got = expect_build("with room again", &request, FA_BUILT);
  expect_warnings("with room again", &got, 0);
  expect_build("with room again", &request, FA_FROM_DISK);
}

/* ---- Pruning --------------------------------------------------------------------------------- */

static void pruning_keeps_what_was_used_last(void **state) {
  (void)state;
  child_request old = request_of("fwd sm80 bf16 d64"), fresh = request_of("fwd sm80 bf16 d72");
  expect_build("old", &old, FA_BUILT);
  kernel_files files = list_kernels();
  expect_build("fresh", &fresh, FA_BUILT);
  char path[256];
  snprintf(path, sizeof path, "%s/%s", cache_dir, files.names[0]);
  const struct timespec long_ago[] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
  assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
  snprintf(path, sizeof path, "%s/1-2-3.tmp", cache_dir);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
  struct stat info;
  cache *open_cache = cache_open(cache_dir, log_to_stderr(LOG_OFF));
  assert_int_equal(cache_prune(open_cache, UINT64_MAX), 0); /* all fits: the leftover is empty */
  assert_int_not_equal(stat(path, &info), 0);
  snprintf(path, sizeof path, "%s/%s", cache_dir, files.names[0]);
  assert_int_equal(stat(path, &info), 0);
  assert_true(cache_prune(open_cache, 2 * (uint64_t)info.st_size) >= (uint64_t)info.st_size);
  assert_int_not_equal(stat(path, &info), 0);
  expect_build("fresh", &fresh, FA_FROM_DISK);
  expect_build("old", &old, FA_BUILT);
  assert_true(cache_prune(open_cache, 0) > 0);
  assert_int_equal(list_kernels().count, 0);
  cache_close(open_cache);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_second_process_renders_and_compiles_nothing),
      IN_FOLDER(a_warm_cache_serves_where_nvrtc_is_gone),
      IN_FOLDER(another_compiler_makes_another_entry),
      IN_FOLDER(another_arch_or_target_makes_another_entry),
      IN_FOLDER(an_edited_template_makes_another_entry),
      IN_FOLDER(a_damaged_entry_is_built_again_with_one_warning),
      IN_FOLDER(an_entry_of_something_else_is_not_loaded),
      IN_FOLDER(a_failed_compilation_leaves_no_entry),
      IN_FOLDER(many_processes_compile_one_key_once),
      IN_FOLDER(a_killed_compiler_holds_nobody_up),
      IN_FOLDER(a_new_folder_is_private),
      IN_FOLDER(a_read_only_folder_is_read),
      IN_FOLDER(a_folder_of_others_is_not_used),
      IN_FOLDER(a_link_or_a_file_is_no_folder),
      IN_FOLDER(a_foreign_entry_is_not_used),
      IN_FOLDER(the_environment_names_the_folder),
      IN_FOLDER(a_very_long_path_is_no_folder),
      IN_FOLDER(a_long_path_is_a_folder),
      IN_FOLDER(a_full_disk_costs_the_cache_alone),
      IN_FOLDER(pruning_keeps_what_was_used_last),
  };
  return cmocka_run_group_tests_name("disk cache", tests, expect_to_end, NULL);
}
