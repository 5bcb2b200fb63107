/* expand.c: groups arguments into specs and multiplies out the words that list alternatives. */
#include "expand.h"

#include <stdlib.h>
#include <string.h>

#include "gen/error.h"

#define BLANKS " \t\r\n\v\f"

static fa_status append_spec(expand_list *list, const char *words, size_t bytes) {
  if (list->count == EXPAND_MAX_SPECS)
    return fail(FA_INVALID, "specs: the products give more than the %d that are allowed",
                EXPAND_MAX_SPECS);
  char **grown = realloc(list->specs, (list->count + 1) * sizeof *grown);
  if (!grown) return fail(FA_NO_MEMORY, "out of memory while reading the specs");
  list->specs = grown;
  char *copy = strndup(words, bytes);
  if (!copy) return fail(FA_NO_MEMORY, "out of memory while reading the specs");
  list->specs[list->count++] = copy;
  return FA_OK;
}

typedef struct product {
  expand_list *list;
  char *chosen; /* one alternative of each word so far; never longer than the text it came from */
} product;

/* Appends `prefix` and `word` to the chosen words; gives the new length. */
static size_t choose(product *p, size_t length, const char *prefix, size_t prefix_bytes,
                     const char *word, size_t word_bytes) {
  if (length) p->chosen[length++] = ' ';
  memcpy(p->chosen + length, prefix, prefix_bytes);
  memcpy(p->chosen + length + prefix_bytes, word, word_bytes);
  return length + prefix_bytes + word_bytes;
}

static int is_digit(char c) {
  return c >= '0' && c <= '9';
}

static size_t leading_letters(const char *word) {
  size_t n = 0;
  while ((word[n] >= 'a' && word[n] <= 'z') || (word[n] >= 'A' && word[n] <= 'Z')) n++;
  return n;
}

/* Chooses each alternative of the first word in `rest`, and for each goes on with the words after.
 */
static fa_status multiply(product *p, size_t length, const char *rest, int words) {
  rest += strspn(rest, BLANKS);
  if (*rest == '\0') return append_spec(p->list, p->chosen, length);
  size_t word_bytes = strcspn(rest, BLANKS);
  if (words == EXPAND_MAX_WORDS)
    return fail(FA_INVALID, "spec: more than %d words", EXPAND_MAX_WORDS);

  const char *end = rest + word_bytes;
  size_t letters = leading_letters(rest);
  for (const char *alternative = rest;;) {
    size_t bytes = strcspn(alternative, "," BLANKS);
    if (bytes == 0)
      return fail(FA_INVALID, "word '%.*s': an alternative between commas is empty",
                  (int)word_bytes, rest);
    size_t prefix = alternative != rest && is_digit(*alternative) ? letters : 0;
    size_t chosen = choose(p, length, rest, prefix, alternative, bytes);
    fa_status status = multiply(p, chosen, end, words + 1);
    if (status != FA_OK) return status;
    if (alternative + bytes == end) return FA_OK;
    alternative += bytes + 1;
  }
}

static int has_blank(const char *argument) {
  return argument[strcspn(argument, BLANKS)] != '\0';
}

/* How many arguments make up the spec that starts at the first. */
static size_t arguments_of_spec(char *const *arguments, size_t count) {
  if (has_blank(arguments[0])) return 1;
  size_t n = 1;
  while (n < count && !has_blank(arguments[n])) n++;
  return n;
}

/* The arguments with a space between; NULL when memory is out. */
static char *join(char *const *arguments, size_t count) {
  size_t bytes = 1;
  for (size_t i = 0; i < count; i++) bytes += strlen(arguments[i]) + 1;
  char *text = malloc(bytes), *end = text;
  if (!text) return NULL;
  for (size_t i = 0; i < count; i++) {
    end = stpcpy(end, arguments[i]);
    *end++ = ' ';
  }
  *end = '\0';
  return text;
}

static fa_status expand_spec(expand_list *list, char *const *arguments, size_t count) {
  fa_status status = FA_OK;
  char *text = join(arguments, count);
  product p = {list, text ? malloc(strlen(text) + 1) : NULL};
  if (!p.chosen) {
    status = fail(FA_NO_MEMORY, "out of memory while reading the specs");
    goto cleanup;
  }
  status = multiply(&p, 0, text, 0);
cleanup:
  free(p.chosen);
  free(text);
  return status;
}

fa_status expand_arguments(expand_list *out, char *const *arguments, size_t count) {
  *out = (expand_list){NULL, 0};
  for (size_t i = 0, n; i < count; i += n) {
    n = arguments_of_spec(arguments + i, count - i);
    fa_status status = expand_spec(out, arguments + i, n);
    if (status == FA_OK) continue;
    expand_free(out);
    return status;
  }
  return FA_OK;
}

void expand_free(expand_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->specs[i]);
  free(list->specs);
  *list = (expand_list){NULL, 0};
}
