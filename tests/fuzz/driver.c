/* driver.c: a fuzzer for where there is no libFuzzer: runs the corpus, then mutations of it, from a
   seed, without looking at what they reach. An input that crashes is left as crash-TARGET. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "trust/report.h"

enum { MOST_INPUTS = 4096, MOST_WORDS = 1024, MOST_BYTES = 64 << 10, INPUT_SECONDS = 60 };

typedef struct bytes {
  uint8_t *data;
  size_t count;
} bytes;

static bytes corpus[MOST_INPUTS], words[MOST_WORDS], now;
static size_t num_inputs, num_words;
static const char *target;
static long runs;

/* Of the address sanitizer; absent elsewhere. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

/* ---- Files --------------------------------------------------------------------------------------- */

static bytes read_file(const char *path) {
  bytes out = {malloc(MOST_BYTES), 0};
  FILE *file = fopen(path, "rb");
  if (!file || !out.data) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
  }
  out.count = fread(out.data, 1, MOST_BYTES, file);
  fclose(file);
  return out;
}

static void add_input(const char *path) {
  struct stat info;
  if (stat(path, &info) || !S_ISDIR(info.st_mode)) {
    if (num_inputs < MOST_INPUTS) corpus[num_inputs++] = read_file(path);
    return;
  }
  struct dirent **names;
  int count = scandir(path, &names, NULL, alphasort);
  for (int i = 0; i < count; ++i) {
    char file[4096];
    snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
    if (names[i]->d_name[0] != '.') add_input(file);
    free(names[i]);
  }
  if (count >= 0) free(names);
}

/* Lines of "text", with \\ \" \xNN, perhaps after NAME=. */
static void read_dictionary(const char *path) {
  bytes file = read_file(path);
  char *text = fuzz_text(file.data, file.count), *rest = text;
  for (char *line; num_words < MOST_WORDS && (line = strsep(&rest, "\n"));) {
    char *at = strchr(line, '"');
    if (line[0] == '#' || !at) continue;
    bytes *word = &words[num_words++];
    word->data = malloc(strlen(at));
    for (++at; *at && *at != '"'; ++at) {
      unsigned byte = (unsigned char)*at;
      if (*at == '\\' && at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1)
        at += 3;
      else if (*at == '\\')
        byte = (unsigned char)*++at;
      word->data[word->count++] = (uint8_t)byte;
    }
  }
  free(text);
  free(file.data);
}

static void save_crash(void) {
  char path[256];
  snprintf(path, sizeof path, "crash-%s", target);
  FILE *file = fopen(path, "wb");
  if (!file) return;
  fwrite(now.data, 1, now.count, file);
  fclose(file);
  fprintf(stderr, "%s: run %ld crashed or hung; its input is in %s\n", target, runs, path);
}

static void crash(int number) {
  save_crash();
  signal(number, SIG_DFL);
  raise(number);
}

/* ---- Mutations ----------------------------------------------------------------------------------- */

static uint64_t state = 1;

static size_t choose(size_t below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return below ? (size_t)(state * 0x9e3779b97f4a7c15u >> 16) % below : 0;
}

/* Replaces `removed` bytes at `at` by others. */
static void splice(size_t at, size_t removed, const uint8_t *with, size_t count) {
  if (now.count - removed + count > MOST_BYTES) return;
  memmove(now.data + at + count, now.data + at + removed, now.count - at - removed);
  if (count) memcpy(now.data + at, with, count);
  now.count = now.count - removed + count;
}

static void mutate_once(void) {
  size_t at = choose(now.count + 1), span = choose(now.count - at + 1), kind = choose(7);
  const bytes *other = &corpus[choose(num_inputs)];
  const uint8_t any = (uint8_t)choose(256);
  if (span > 64 && choose(4)) span = 1 + choose(64);
  if (kind == 0 && at < now.count)
    now.data[at] ^= (uint8_t)(1 << choose(8));
  else if (kind == 1 && at < now.count)
    now.data[at] = any;
  else if (kind == 2)
    splice(at, 0, &any, 1);
  else if (kind == 3)
    splice(at, span, NULL, 0);
  else if (kind == 4 && num_words) {
    const bytes *word = &words[choose(num_words)];
    splice(at, choose(2) ? 0 : span, word->data, word->count);
  } else if (kind == 5 && other->count) {
    size_t from = choose(other->count), count = 1 + choose(other->count - from);
    splice(at, choose(2) ? 0 : span, other->data + from, count);
  } else if (kind == 6 && span && now.count + span <= MOST_BYTES) {
    uint8_t *copy = malloc(span);
    FUZZ_CHECK(copy);
    memcpy(copy, now.data + at, span);
    splice(at, 0, copy, span);
    free(copy);
  }
}

/* The memory is exactly as long as the input, so that reading past it is seen. */
static void run_input(void) {
  uint8_t *exact = malloc(now.count ? now.count : 1);
  FUZZ_CHECK(exact);
  memcpy(exact, now.data, now.count);
  alarm(INPUT_SECONDS);
  LLVMFuzzerTestOneInput(exact, now.count);
  ++runs;
  free(exact);
}

static void take(const bytes *input) {
  memcpy(now.data, input->data, input->count);
  now.count = input->count;
}

static void mutate_until(time_t end, long most_runs) {
  while (runs < most_runs && (!end || time(NULL) < end)) {
    take(&corpus[choose(num_inputs)]);
    for (size_t i = 1 + choose(6); i; --i) mutate_once();
    run_input();
  }
}

int main(int argc, char **argv) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
  static const bytes nothing = {(uint8_t *)"", 0};
  long seconds = 0, most_runs = -1;
  const char *slash = strrchr(argv[0], '/');
  target = slash ? slash + 1 : argv[0];
  for (int i = 1; i < argc; ++i) {
    if (sscanf(argv[i], "-seed=%" SCNu64, &state) == 1 ||
        sscanf(argv[i], "-runs=%ld", &most_runs) == 1 ||
        sscanf(argv[i], "-max_total_time=%ld", &seconds) == 1)
      continue;
    if (!strncmp(argv[i], "-dict=", 6))
      read_dictionary(argv[i] + 6);
    else if (argv[i][0] != '-')
      add_input(argv[i]);
  }
  if (!num_inputs) corpus[num_inputs++] = nothing;
  now.data = malloc(MOST_BYTES);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) signal(signals[i], crash);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_crash);
  for (size_t i = 0; i < num_inputs; ++i) {
    take(&corpus[i]);
    run_input();
  }
  if (!state) state = 1;
  mutate_until(seconds ? time(NULL) + seconds : 0,
               most_runs < 0 ? (seconds ? 1L << 60 : runs) : most_runs);
  printf("%s: %ld inputs, no crash\n", target, runs);
  report_line("fuzz %ld 0", runs);
  return 0;
}
