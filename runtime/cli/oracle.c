/* oracle.c: postfix words to a list of operations, and a stack of dual numbers that runs it. */
#include "oracle.h"

#include "gen/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_MAX = 64 };

typedef enum operation {
  NUMBER,
  PLACE_Q,
  PLACE_K,
  SCORE,
  ADD,
  SUB,
  MUL,
  NEG,
  LT,
  LE,
  GT,
  GE,
  EQ,
  NE,
  AND,
  OR
} operation;

typedef struct word {
  const char *text;
  operation does;
  int takes; /* values off the stack; each word leaves one */
} word;

static const word words[] = {
    {"q", PLACE_Q, 0}, {"k", PLACE_K, 0}, {"s", SCORE, 0}, {"add", ADD, 2}, {"sub", SUB, 2},
    {"mul", MUL, 2},   {"neg", NEG, 1},   {"lt", LT, 2},   {"le", LE, 2},   {"gt", GT, 2},
    {"ge", GE, 2},     {"eq", EQ, 2},     {"ne", NE, 2},   {"and", AND, 2}, {"or", OR, 2},
};

typedef struct step {
  operation does;
  double number;
} step;

typedef struct program {
  step *steps;
  size_t count;
} program;

struct oracle {
  program keep, score;
};

/* A value and its derivative by s. */
typedef struct dual {
  double value, slope;
} dual;

static const word *find_word(const char *text, size_t length) {
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strlen(words[i].text) == length && !memcmp(words[i].text, text, length)) return &words[i];
  return NULL;
}

/* strtod alone would also take "nan", "inf" and hexadecimal. */
static int read_number(double *number, const char *text, size_t length) {
  if (length == 0 || strspn(text, "0123456789.eE+-") < length) return 0;
  if (!strchr("0123456789.-", *text)) return 0;
  char *end;
  *number = strtod(text, &end);
  return end == text + length && isfinite(*number);
}

static fa_status read_step(step *out, int *depth, const char *text, size_t length, int score) {
  const word *found = find_word(text, length);
  int takes = found ? found->takes : 0;
  out->does = found ? found->does : NUMBER;
  out->number = 0;
  if (!found && !read_number(&out->number, text, length))
    return fail(FA_INVALID,
                "oracle: '%.*s'; a word is a number, q, k, s, add, sub, mul, neg, lt, le, gt, ge, "
                "eq, ne, and, or, with single spaces between",
                (int)length, text);
  if (out->does == SCORE && !score)
    return fail(FA_INVALID, "oracle: 's' in a mask; a mask depends on q and k only");
  if (*depth < takes)
    return fail(FA_INVALID, "oracle: '%.*s' takes %d values, %d on the stack", (int)length, text,
                takes, *depth);
  *depth += 1 - takes;
  if (*depth > STACK_MAX)
    return fail(FA_INVALID, "oracle: %d values on the stack; at most %d", *depth, STACK_MAX);
  return FA_OK;
}

static fa_status compile(program *out, const char *text, int score) {
  if (*text == '\0') return FA_OK;
  size_t spaces = 0;
  for (const char *c = text; *c; ++c) spaces += *c == ' ';
  out->steps = malloc((spaces + 1) * sizeof *out->steps);
  if (!out->steps) return fail(FA_NO_MEMORY, "oracle: no memory for %zu words", spaces + 1);
  int depth = 0;
  for (const char *at = text;;) {
    size_t length = strcspn(at, " ");
    fa_status status = read_step(&out->steps[out->count++], &depth, at, length, score);
    if (status) return status;
    if (at[length] == '\0') break;
    at += length + 1;
  }
  if (depth != 1)
    return fail(FA_INVALID, "oracle: '%s' leaves %d values; it must leave 1", text, depth);
  return FA_OK;
}

fa_status oracle_compile(oracle **out, const char *keep, const char *score) {
  oracle *compiled = calloc(1, sizeof *compiled);
  if (!compiled) return fail(FA_NO_MEMORY, "oracle: no memory");
  fa_status status = compile(&compiled->keep, keep, 0);
  if (!status) status = compile(&compiled->score, score, 1);
  if (status) {
    oracle_free(compiled);
    return status;
  }
  *out = compiled;
  return FA_OK;
}

void oracle_free(oracle *compiled) {
  if (!compiled) return;
  free(compiled->keep.steps);
  free(compiled->score.steps);
  free(compiled);
}

static dual apply(operation does, dual a, dual b) {
  switch (does) {
  case ADD:
    return (dual){a.value + b.value, a.slope + b.slope};
  case SUB:
    return (dual){a.value - b.value, a.slope - b.slope};
  case MUL:
    return (dual){a.value * b.value, a.slope * b.value + a.value * b.slope};
  case NEG:
    return (dual){-a.value, -a.slope};
  case LT:
    return (dual){a.value < b.value, 0};
  case LE:
    return (dual){a.value <= b.value, 0};
  case GT:
    return (dual){a.value > b.value, 0};
  case GE:
    return (dual){a.value >= b.value, 0};
  case EQ:
    return (dual){a.value == b.value, 0};
  case NE:
    return (dual){a.value != b.value, 0};
  case AND:
    return (dual){a.value != 0 && b.value != 0, 0};
  case OR:
    return (dual){a.value != 0 || b.value != 0, 0};
  default:
    return a;
  }
}

static dual run(const program *list, double s, int64_t q, int64_t k) {
  dual stack[STACK_MAX];
  size_t depth = 0;
  for (size_t i = 0; i < list->count; ++i) {
    const step *now = &list->steps[i];
    switch (now->does) {
    case NUMBER:
      stack[depth++] = (dual){now->number, 0};
      break;
    case PLACE_Q:
      stack[depth++] = (dual){(double)q, 0};
      break;
    case PLACE_K:
      stack[depth++] = (dual){(double)k, 0};
      break;
    case SCORE:
      stack[depth++] = (dual){s, 1};
      break;
    case NEG:
      stack[depth - 1] = apply(NEG, stack[depth - 1], stack[depth - 1]);
      break;
    default:
      --depth;
      stack[depth - 1] = apply(now->does, stack[depth - 1], stack[depth]);
    }
  }
  return stack[0];
}

int oracle_keep(const oracle *compiled, int64_t q, int64_t k) {
  return compiled->keep.count == 0 || run(&compiled->keep, 0, q, k).value != 0;
}

double oracle_score(const oracle *compiled, double s, int64_t q, int64_t k, double *derivative) {
  dual result = {s, 1};
  if (compiled->score.count) result = run(&compiled->score, s, q, k);
  *derivative = result.slope;
  return result.value;
}
