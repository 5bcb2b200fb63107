/* cache_command.c: `fagen cache`: the folder of compiled kernels, listed, verified, pruned. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gen/error.h"
#include "runtime/cache.h"
#include "table.h"

/* ---- The entries ----------------------------------------------------------------------------- */

typedef struct kept {
  char file[CACHE_FILE_NAME];
  char name[FA_NAME_MAX]; /* of the kernel; "" when damaged */
  char arch[16];
  uint64_t bytes;
  int64_t made, last_used;
} kept;

typedef struct kept_list {
  kept *items;
  size_t count, damaged;
  uint64_t bytes;
  int out_of_memory;
} kept_list;

/* The rest of the key's line that begins so; 0 when there is none. */
static int read_line(char *out, size_t room, const char *key, const char *beginning) {
  const char *at = strstr(key, beginning);
  if (!at) return 0;
  at += strlen(beginning);
  snprintf(out, room, "%.*s", (int)strcspn(at, "\n"), at);
  return 1;
}

/* Keys are text: cuda_build.c writes those of kernels, nvrtc_memo.c the one beside them. */
static void name_kept(kept *item, const char *key) {
  char words[FA_NAME_MAX];
  fa_spec spec = FA_SPEC_INIT;
  snprintf(item->arch, sizeof item->arch, "-");
  if (!read_line(words, sizeof words, key, "\nspec ")) {
    int is_memo = !strncmp(key, "fagen nvrtc ", strlen("fagen nvrtc "));
    snprintf(item->name, sizeof item->name, "%s",
             is_memo ? "(which NVRTC compiles)" : "(of another version)");
    return;
  }
  read_line(item->arch, sizeof item->arch, key, "\narch ");
  if (fa_spec_parse(&spec, words) || fa_spec_name(item->name, sizeof item->name, &spec))
    snprintf(item->name, sizeof item->name, "%s", words); /* of another version's words */
}

static void add_kept(void *to, const cache_item *item) {
  kept_list *list = to;
  kept *grown = realloc(list->items, (list->count + 1) * sizeof *grown);
  if (!grown) {
    list->out_of_memory = 1;
    return;
  }
  list->items = grown;
  kept *next = &grown[list->count++];
  *next = (kept){.bytes = item->bytes, .made = item->made, .last_used = item->last_used};
  snprintf(next->file, sizeof next->file, "%s", item->file);
  if (item->key) name_kept(next, item->key);
  list->damaged += !item->key;
  list->bytes += item->bytes;
}

static int latest_first(const void *a, const void *b) {
  const kept *x = a, *y = b;
  if (x->last_used != y->last_used) return x->last_used < y->last_used ? 1 : -1;
  return strcmp(x->name, y->name);
}

static fa_status read_kept(kept_list *out, cache *from) {
  *out = (kept_list){.items = NULL};
  cache_visit(from, add_kept, out);
  if (out->count) qsort(out->items, out->count, sizeof *out->items, latest_first);
  if (!out->out_of_memory) return FA_OK;
  free(out->items);
  return fail(FA_NO_MEMORY, "out of memory while reading the cache folder");
}

/* ---- What is printed ------------------------------------------------------------------------- */

typedef struct words {
  char text[32];
} words;

static words age_of(int64_t then) {
  static const struct {
    int64_t seconds;
    const char *word;
  } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
  int64_t age = (int64_t)time(NULL) - then;
  words out;
  size_t unit = 0;
  if (age < 0) age = 0; /* a clock was set back */
  while (unit < 3 && age < 2 * units[unit].seconds) ++unit;
  snprintf(out.text, sizeof out.text, "%" PRId64 " %s", age / units[unit].seconds,
           units[unit].word);
  return out;
}

static void print_sum(const kept_list *list, const char *path) {
  printf("%zu entries of %s in %s\n", list->count, amount_of_bytes((int64_t)list->bytes).text,
         path);
}

static int list_kept(cache *open) {
  kept_list list;
  fa_status status = read_kept(&list, open);
  if (status) return cli_fail(status);
  int columns = (int)strlen("kernel");
  for (size_t i = 0; i < list.count; ++i)
    if ((int)strlen(list.items[i].name) > columns) columns = (int)strlen(list.items[i].name);
  if (list.count)
    printf("%-*s  %4s  %10s  %7s  %9s\n", columns, "kernel", "arch", "bytes", "age", "last used");
  for (size_t i = 0; i < list.count; ++i) {
    const kept *item = &list.items[i];
    printf("%-*s  %4s  %10" PRIu64 "  %7s  %9s%s%s\n", columns,
           item->name[0] ? item->name : "damaged", item->arch, item->bytes, age_of(item->made).text,
           age_of(item->last_used).text, item->name[0] ? "" : "  ",
           item->name[0] ? "" : item->file);
  }
  print_sum(&list, cache_path(open));
  free(list.items);
  return CLI_OK;
}

static int verify_kept(cache *open) {
  kept_list list;
  fa_status status = read_kept(&list, open);
  if (status) return cli_fail(status);
  for (size_t i = 0; i < list.count; ++i)
    if (!list.items[i].name[0])
      printf("damaged: %s, %" PRIu64 " bytes\n", list.items[i].file, list.items[i].bytes);
  if (list.damaged)
    printf("%zu damaged: cut off, altered, of another version, open to others, or not under the "
           "name of their key;\n"
           "they are never used, and made again when needed; `fagen cache prune` removes them\n",
           list.damaged);
  printf("%zu right of ", list.count - list.damaged);
  print_sum(&list, cache_path(open));
  free(list.items);
  return list.damaged ? CLI_WRONG : CLI_OK;
}

static int prune_kept(cache *open, int64_t max_bytes) {
  kept_list list;
  uint64_t removed =
      cache_prune(open, max_bytes == CLI_NOT_GIVEN ? UINT64_MAX : (uint64_t)max_bytes);
  fa_status status = read_kept(&list, open);
  if (status) return cli_fail(status);
  printf("removed %s; left: ", amount_of_bytes((int64_t)removed).text);
  print_sum(&list, cache_path(open));
  int too_much = max_bytes != CLI_NOT_GIVEN && list.bytes > (uint64_t)max_bytes;
  if (too_much)
    fprintf(stderr, "fagen: more than --max-bytes is left: entries could not be removed, or were "
                    "made meanwhile\n");
  free(list.items);
  return too_much ? CLI_WRONG : CLI_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* A folder that is not there is not made by looking for it. *out NULL: told, and *code is set. */
static void open_kept(cache **out, int *code) {
  char *path = cache_choose(NULL);
  *out = NULL;
  *code = CLI_OK;
  if (!path) {
    const char *named = getenv("FA_CACHE_DIR");
    puts(named ? "no cache folder: FA_CACHE_DIR is empty, so nothing is kept"
               : "no cache folder: neither FA_CACHE_DIR nor XDG_CACHE_HOME nor HOME names one");
  } else if (access(path, F_OK) && errno == ENOENT) {
    printf("no cache folder: %s is not there; the first kernel compiled makes it\n", path);
  } else if (!(*out = cache_open(NULL, cli_log()))) {
    *code = CLI_CANNOT_RUN; /* the warning has the reason */
  }
  free(path);
}

static int is_word(const cli_options *options, const char *word) {
  return !strcmp(options->words[0], word);
}

static fa_status check_words(const cli_options *options) {
  static const char needed[] = "list, verify or prune is needed";
  if (!options->num_words) return fail(FA_INVALID, "cache: no word behind it; %s", needed);
  if (!is_word(options, "list") && !is_word(options, "verify") && !is_word(options, "prune"))
    return fail(FA_INVALID, "cache: '%s'; %s", options->words[0], needed);
  if (options->num_words > 1)
    return fail(FA_INVALID, "cache: '%s' behind '%s'; one word is taken", options->words[1],
                options->words[0]);
  if (options->max_bytes != CLI_NOT_GIVEN && !is_word(options, "prune"))
    return fail(FA_INVALID, "--max-bytes: with `cache %s`; it is for `cache prune`",
                options->words[0]);
  return FA_OK;
}

int cli_cache(const cli_options *options) {
  cache *open;
  int code;
  fa_status status = check_words(options);
  if (status) return cli_fail(status);
  open_kept(&open, &code);
  if (!open) return code;
  if (is_word(options, "list"))
    code = list_kept(open);
  else if (is_word(options, "verify"))
    code = verify_kept(open);
  else
    code = prune_kept(open, options->max_bytes);
  cache_close(open);
  return code;
}
