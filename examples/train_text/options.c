/* options.c: the command line, from one table that also makes the help. */
#include "train_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_STEPS = 1000, NOT_GIVEN = -1 };

typedef enum option_kind { INTEGER, REAL, WORD, STRING } option_kind;

typedef struct option {
  const char *name, *value_name;
  option_kind kind;
  size_t offset; /* in train_options */
  double least, most;
  const char *const *words; /* WORD: the value is the place in the list, which ends with NULL */
  const char *help;
} option;

static const char *const target_words[] = {"best", "cpu", "sm80", "sm90",
                                           NULL};                              /* ORDER fa_target */
static const char *const dtype_words[] = {"auto", "f16", "bf16", "f32", NULL}; /* ORDER fa_dtype */

#define AT(field) offsetof(train_options, field)
static const option table[] = {
    {"--steps", "N", INTEGER, AT(steps), 0, 1e9, NULL,
     "training steps; 0 = no limit. Default 1000, or 0 with --seconds"},
    {"--seconds", "N", INTEGER, AT(seconds), 0, 1e9, NULL,
     "stop after so many seconds; 0 = no limit. Default 0"},
    {"--target", "NAME", WORD, AT(target), 0, 0, target_words,
     "kernels of attention: best, cpu, sm80, sm90. Default best"},
    {"--dtype", "NAME", WORD, AT(dtype), 0, 0, dtype_words,
     "storage of attention: f32 (cpu only), f16, bf16, or auto:\n"
     "f32 on the processor, bf16 on a GPU. Default auto"},
    {"--layers", "N", INTEGER, AT(layers), 1, 128, NULL, "layers. Default 4"},
    {"--heads", "N", INTEGER, AT(heads), 1, 256, NULL, "query heads. Default 4"},
    {"--heads-kv", "N", INTEGER, AT(heads_kv), 1, 256, NULL,
     "key/value heads; --heads is a multiple of it. Default 2"},
    {"--dim", "N", INTEGER, AT(dim), 8, 8192, NULL,
     "width of the model; --dim / --heads is a multiple of 8,\nat most 256. Default 64"},
    {"--context", "N", INTEGER, AT(context), 1, 65536, NULL,
     "bytes that the model looks back on. Default 128"},
    {"--batch", "N", INTEGER, AT(batch), 1, 4096, NULL, "stretches of text a step. Default 8"},
    {"--rate", "X", REAL, AT(rate), 1e-9, 10, NULL,
     "highest learning rate; it warms up over 20 steps, then falls\n"
     "to a tenth along a cosine, or stays if --steps is 0.\nDefault 0.003"},
    {"--seed", "N", INTEGER, AT(seed), 0, 9e15, NULL,
     "of weights and batches; one seed, one machine: one loss,\nwhatever --threads. Default 1"},
    {"--threads", "N", INTEGER, AT(threads), 1, 1024, NULL,
     "threads. Default FA_THREADS, else all processors"},
    {"--losses", "PATH", STRING, AT(losses), 0, 0, NULL,
     "write a line a step: step, loss, loss in hexadecimal"},
    {"--sample", "N", INTEGER, AT(sample), 0, 1e6, NULL,
     "write so many bytes with the trained model. Default 0"},
};
enum { NUM_OPTIONS = sizeof table / sizeof table[0] };

const char *target_name(int64_t target) {
  return target_words[target];
}

/* ---- Help ----------------------------------------------------------------------------------- */

static void print_help(void) {
  const int column = 19;
  printf("train_text: trains a small transformer to predict the next byte of a text.\n"
         "Attention, forward and backward, comes from libfagen; the rest is plain C.\n"
         "\n"
         "  train_text FILE...                       a minute or less on two cores\n"
         "  train_text --sample 400 FILE...          and let the model write at the end\n"
         "  train_text --seconds 600 --dim 256 FILE...\n"
         "\n"
         "FILE is any file; 100 kB of text or source code are enough to see it learn.\n"
         "The loss is in nats a byte: 5.5 is a guess, below 2.5 words appear.\n"
         "\n");
  for (int i = 0; i < NUM_OPTIONS; ++i) {
    const option *o = &table[i];
    int used = printf("  %s %s", o->name, o->value_name);
    printf("%*s", used < column ? column - used : 1, "");
    for (const char *c = o->help; *c; ++c)
      if (*c == '\n')
        printf("\n%*s", column, "");
      else
        putchar(*c);
    putchar('\n');
  }
  printf("  --help           this text\n"
         "\n"
         "Exit: 0 trained, 1 failed, 2 bad input, 3 the target cannot run here.\n");
}

/* ---- Values --------------------------------------------------------------------------------- */

static bool set_word(const option *o, int64_t *field, const char *word) {
  for (int i = 0; o->words[i]; ++i) {
    if (strcmp(o->words[i], word) != 0) continue;
    *field = i;
    return true;
  }
  fprintf(stderr, "train_text: %s %s: unknown; allowed:", o->name, word);
  for (int i = 0; o->words[i]; ++i) fprintf(stderr, " %s", o->words[i]);
  fputc('\n', stderr);
  return false;
}

static bool set_number(const option *o, void *field, const char *word) {
  char *end;
  errno = 0;
  if (o->kind == INTEGER) {
    long long value = strtoll(word, &end, 10);
    if (end != word && !*end && !errno && value >= o->least && value <= o->most) {
      *(int64_t *)field = value;
      return true;
    }
    fprintf(stderr, "train_text: %s %s: must be a whole number from %.0f to %.0f\n", o->name, word,
            o->least, o->most);
    return false;
  }
  double value = strtod(word, &end);
  if (end != word && !*end && value >= o->least && value <= o->most) {
    *(double *)field = value;
    return true;
  }
  fprintf(stderr, "train_text: %s %s: must be a number from %g to %g\n", o->name, word, o->least,
          o->most);
  return false;
}

static bool set_option(train_options *out, const option *o, const char *word) {
  void *field = (char *)out + o->offset;
  if (!word) {
    fprintf(stderr, "train_text: %s needs a value: %s %s\n", o->name, o->name, o->value_name);
    return false;
  }
  if (o->kind == WORD) return set_word(o, field, word);
  if (o->kind != STRING) return set_number(o, field, word);
  *(const char **)field = word;
  return true;
}

/* Takes "--name value" or "--name=value" and moves *at to the last word used. */
static bool take_option(train_options *out, char **argv, int argc, int *at) {
  const char *word = argv[*at];
  size_t length = strcspn(word, "=");
  for (int i = 0; i < NUM_OPTIONS; ++i) {
    const option *o = &table[i];
    if (strlen(o->name) != length || strncmp(o->name, word, length) != 0) continue;
    if (word[length] == '=') return set_option(out, o, word + length + 1);
    return set_option(out, o, *at + 1 < argc ? argv[++*at] : NULL);
  }
  fprintf(stderr, "train_text: unknown option %s; --help lists them\n", word);
  return false;
}

/* ---- What the values must be to each other -------------------------------------------------- */

static bool shapes_fit(const train_options *o) {
  long long dim = o->dim, heads = o->heads, heads_kv = o->heads_kv;
  if (heads % heads_kv != 0)
    fprintf(stderr, "train_text: --heads %lld: must be a multiple of --heads-kv, which is %lld\n",
            heads, heads_kv);
  else if (dim % heads != 0 || dim / heads % 8 != 0 || dim / heads > FA_DIM_MAX)
    fprintf(stderr,
            "train_text: --dim %lld: must be --heads, which is %lld, times a head dimension of 8, "
            "16, ... %d\n",
            dim, heads, FA_DIM_MAX);
  else
    return true;
  return false;
}

static bool options_fit(train_options *o) {
  if (o->num_files == 0) {
    fprintf(stderr, "train_text: no FILE to train on; --help explains\n");
    return false;
  }
  if (o->steps == NOT_GIVEN) o->steps = o->seconds ? 0 : DEFAULT_STEPS;
  if (o->steps == 0 && o->seconds == 0) {
    fprintf(stderr, "train_text: --steps 0: has no limit and needs --seconds of 1 or more\n");
    return false;
  }
  if (o->dtype == FA_F32 && (o->target == FA_TARGET_SM80 || o->target == FA_TARGET_SM90)) {
    fprintf(stderr, "train_text: --dtype f32: --target %s allows f16 and bf16\n",
            target_name(o->target));
    return false;
  }
  return shapes_fit(o);
}

bool options_parse(train_options *out, int argc, char **argv, int *exit_code) {
  *out = (train_options){.steps = NOT_GIVEN,
                         .layers = 4,
                         .heads = 4,
                         .heads_kv = 2,
                         .dim = 64,
                         .context = 128,
                         .batch = 8,
                         .seed = 1,
                         .rate = 0.003};
  bool only_files = false;
  *exit_code = EXIT_BAD_INPUT;
  out->files = (const char **)argv;
  for (int i = 1; i < argc; ++i) {
    const char *word = argv[i];
    if (!only_files && strcmp(word, "--") == 0)
      only_files = true;
    else if (!only_files && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      print_help();
      *exit_code = EXIT_RIGHT;
      return false;
    } else if (only_files || word[0] != '-' || word[1] == 0)
      out->files[out->num_files++] = word;
    else if (!take_option(out, argv, argc, &i))
      return false;
  }
  return options_fit(out);
}
