/* params.c: the text of a parameter list to structs. */
#include "params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

int param_is_table(const variant_param *param) {
  return param->per != PARAM_PER_NONE || param->size[0];
}

int params_find(const param_list *list, const char *name) {
  for (int i = 0; i < list->count; ++i) {
    const variant_param *param = &list->items[i];
    size_t prefix = strlen(param->variant);
    if (!strncmp(name, param->variant, prefix) && name[prefix] == '.' &&
        !strcmp(name + prefix + 1, param->name))
      return i;
  }
  return -1;
}

/* ---- Text ----------------------------------------------------------------------------------- */

enum { WORDS = 15, WORD_BYTES = 32 }; /* the last word is a semicolon */

/* Splits one line at blanks; whether it has exactly WORDS words that fit. */
static int split_line(char words[WORDS][WORD_BYTES], const char *line, size_t length) {
  int count = 0;
  for (size_t at = 0; at < length; ++count) {
    size_t word = strcspn(line + at, " \n");
    if (count == WORDS || word == 0 || word >= WORD_BYTES) return 0;
    memcpy(words[count], line + at, word);
    words[count][word] = '\0';
    at += word + 1;
  }
  return count == WORDS;
}

static int is_absent(const char *word) {
  return !strcmp(word, "-");
}

static void copy_name(char to[WORD_BYTES], const char *word) {
  if (!is_absent(word)) memcpy(to, word, strlen(word) + 1);
}

static int take_limit(double *out, const char *word) {
  *out = is_absent(word) ? 0 : strtod(word, NULL);
  return !is_absent(word);
}

static int take_per(const char *word) {
  static const char *const names[] = {"-", "head", "q", "k"};
  for (int i = 0; i < 4; ++i)
    if (!strcmp(word, names[i])) return i;
  return -1;
}

/* The words of a line, in the order of the struct's members. */
static int take_param(variant_param *out, char words[WORDS][WORD_BYTES]) {
  copy_name(out->variant, words[0]);
  copy_name(out->name, words[1]);
  copy_name(out->size, words[2]);
  out->is_int = !strcmp(words[3], "i32");
  out->per = take_per(words[4]);
  out->grad = !strcmp(words[5], "grad");
  out->has_min = take_limit(&out->min, words[6]);
  out->has_max = take_limit(&out->max, words[7]);
  out->has_above = take_limit(&out->above, words[8]);
  out->has_below = take_limit(&out->below, words[9]);
  out->longest = is_absent(words[10]) ? 0 : strtoll(words[10], NULL, 10);
  out->draw_low = strtod(words[11], NULL);
  out->draw_to_seqlen_k = !strcmp(words[12], "seqlen_k");
  out->draw_high = out->draw_to_seqlen_k ? 0 : strtod(words[12], NULL);
  out->line = is_absent(words[13]) ? 0 : (int)strtol(words[13], NULL, 10);
  return out->per >= 0 && !strcmp(words[14], ";");
}

fa_status params_parse(param_list *out, const char *text) {
  memset(out, 0, sizeof *out);
  for (const char *line = text; *line;) {
    char words[WORDS][WORD_BYTES];
    size_t length = strcspn(line, "\n");
    if (out->count == PARAMS_MAX || !split_line(words, line, length) ||
        !take_param(&out->items[out->count++], words))
      return fail(FA_TEMPLATE, "parameters: '%.*s' is no line of templates/params.lua", (int)length,
                  line);
    line += length + (line[length] == '\n');
  }
  return FA_OK;
}
