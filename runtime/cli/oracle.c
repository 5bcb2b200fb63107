/* oracle.c: postfix words to a list of steps, and a stack of dual numbers that runs it. A dual has
   one slope for s and one for each place where a parameter with a gradient stands in the list. */
#include "oracle.h"

#include "gen/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_MAX = 64, SLOPES_MAX = 32 };

typedef enum operation {
  /* leaves */
  NUMBER,
  PLACE_Q,
  PLACE_K,
  SCORE,
  HEAD,
  BATCH,
  SEQLEN_Q,
  SEQLEN_K,
  HEADS_Q,
  HEADS_KV,
  PARAM,
  LENGTH,
  /* of one value */
  TABLE,
  NEG,
  ABS,
  EXP,
  LOG,
  TANH,
  SIGMOID,
  FLOOR,
  NOT,
  /* of two */
  ADD,
  SUB,
  MUL,
  DIV,
  IDIV,
  MOD,
  MIN,
  MAX,
  LT,
  LE,
  GT,
  GE,
  EQ,
  NE,
  AND,
  OR,
  /* of three */
  SELECT
} operation;

static const struct word {
  const char *text;
  operation does;
} words[] = {
    {"q", PLACE_Q},
    {"k", PLACE_K},
    {"s", SCORE},
    {"head", HEAD},
    {"batch", BATCH},
    {"seqlen_q", SEQLEN_Q},
    {"seqlen_k", SEQLEN_K},
    {"heads_q", HEADS_Q},
    {"heads_kv", HEADS_KV},
    {"neg", NEG},
    {"abs", ABS},
    {"exp", EXP},
    {"log", LOG},
    {"tanh", TANH},
    {"sigmoid", SIGMOID},
    {"floor", FLOOR},
    {"not", NOT},
    {"add", ADD},
    {"sub", SUB},
    {"mul", MUL},
    {"div", DIV},
    {"idiv", IDIV},
    {"mod", MOD},
    {"min", MIN},
    {"max", MAX},
    {"lt", LT},
    {"le", LE},
    {"gt", GT},
    {"ge", GE},
    {"eq", EQ},
    {"ne", NE},
    {"and", AND},
    {"or", OR},
    {"select", SELECT},
};

typedef struct step {
  operation does;
  double number;
  size_t slot; /* of PARAM and TABLE */
  int slope;   /* the slope that begins here; -1 = none */
} step;

typedef struct program {
  const char *what; /* "mask", "score", "sink" */
  step *steps;
  size_t count;
  int slopes; /* in use; the score's first is by s */
} program;

struct oracle {
  program keep, score, sink;
  cli_sizes sizes;
  oracle_param *params;
  size_t num_params;
};

/* ---- Words to steps ------------------------------------------------------------------------- */

static int values_taken(operation does) {
  return does < TABLE ? 0 : does < ADD ? 1 : does < SELECT ? 2 : 3;
}

static int find_word(operation *out, const char *text, size_t length) {
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strlen(words[i].text) == length && !memcmp(words[i].text, text, length)) {
      *out = words[i].does;
      return 1;
    }
  return 0;
}

/* strtod alone would also take "nan", "inf" and hexadecimal. */
static int read_number(double *number, const char *text, size_t length) {
  if (length == 0 || strspn(text, "0123456789.eE+-") < length) return 0;
  if (!strchr("0123456789.-", *text)) return 0;
  char *end;
  *number = strtod(text, &end);
  return end == text + length && isfinite(*number);
}

static int is_indexed(oracle_layout layout) {
  return layout == ORACLE_INDEXED || layout == ORACLE_INDEXED_PER_HEAD;
}

/* "p3", "t3" or "n3": a slot that is there, of a parameter that is read so. */
static int read_slot(step *out, const oracle *o, const char *text, size_t length) {
  if (length < 2 || length > 4 || strspn(text + 1, "0123456789") + 1 < length) return 0;
  if (!strchr("ptn", *text)) return 0;
  out->slot = (size_t)strtol(text + 1, NULL, 10);
  out->does = *text == 't' ? TABLE : *text == 'n' ? LENGTH : PARAM;
  return out->slot < o->num_params &&
         is_indexed(o->params[out->slot].layout) == (out->does != PARAM);
}

static fa_status begin_slope(step *out, program *list, const oracle *o) {
  int has_slot = out->does == PARAM || out->does == TABLE;
  out->slope = out->does == SCORE ? 0 : -1;
  if (!has_slot || !o->params[out->slot].grad || list == &o->keep) return FA_OK;
  if (list->slopes == SLOPES_MAX)
    return fail(FA_INVALID, "oracle: the %s names parameters with gradients more than %d times",
                list->what, SLOPES_MAX);
  out->slope = list->slopes++;
  return FA_OK;
}

static fa_status read_step(step *out, program *list, const oracle *o, const char *text,
                           size_t length) {
  *out = (step){.does = NUMBER, .slope = -1};
  if (!find_word(&out->does, text, length) && !read_number(&out->number, text, length) &&
      !read_slot(out, o, text, length))
    return fail(FA_INVALID,
                "oracle: '%.*s' in the %s; a word is a number, a leaf, a parameter below %zu that "
                "is there, or an operator, with single spaces between",
                (int)length, text, list->what, o->num_params);
  if (out->does == SCORE && list != &o->score)
    return fail(FA_INVALID, "oracle: 's' in a %s; only a score depends on it", list->what);
  return begin_slope(out, list, o);
}

static fa_status count_values(int *depth, const step *now, const char *text, size_t length) {
  int takes = values_taken(now->does);
  if (*depth < takes)
    return fail(FA_INVALID, "oracle: '%.*s' takes %d values, %d on the stack", (int)length, text,
                takes, *depth);
  *depth += 1 - takes;
  if (*depth > STACK_MAX)
    return fail(FA_INVALID, "oracle: %d values on the stack; at most %d", *depth, STACK_MAX);
  return FA_OK;
}

static fa_status compile(program *out, const oracle *o, const char *text) {
  if (*text == '\0') return FA_OK;
  size_t spaces = 0;
  for (const char *c = text; *c; ++c) spaces += *c == ' ';
  out->steps = malloc((spaces + 1) * sizeof *out->steps);
  if (!out->steps) return fail(FA_NO_MEMORY, "oracle: no memory for %zu words", spaces + 1);
  int depth = 0;
  for (const char *at = text;;) {
    size_t length = strcspn(at, " ");
    step *now = &out->steps[out->count++];
    fa_status status = read_step(now, out, o, at, length);
    if (!status) status = count_values(&depth, now, at, length);
    if (status) return status;
    if (at[length] == '\0') break;
    at += length + 1;
  }
  if (depth != 1)
    return fail(FA_INVALID, "oracle: '%s' leaves %d values; it must leave 1", text, depth);
  return FA_OK;
}

fa_status oracle_compile(oracle **out, const oracle_words *from, const cli_sizes *sizes,
                         const oracle_param *params, size_t num_params) {
  oracle *o = calloc(1, sizeof *o);
  if (!o) return fail(FA_NO_MEMORY, "oracle: no memory");
  o->sizes = *sizes;
  o->keep = (program){.what = "mask"};
  o->score = (program){.what = "score", .slopes = 1};
  o->sink = (program){.what = "sink"};
  o->num_params = num_params;
  o->params = calloc(num_params + 1, sizeof *o->params);
  fa_status status = o->params ? FA_OK : fail(FA_NO_MEMORY, "oracle: no memory");
  for (size_t i = 0; i < num_params && !status; ++i) o->params[i] = params[i];
  if (!status) status = compile(&o->keep, o, from->keep);
  if (!status) status = compile(&o->score, o, from->score);
  if (!status) status = compile(&o->sink, o, from->sink);
  if (status) {
    oracle_free(o);
    return status;
  }
  *out = o;
  return FA_OK;
}

void oracle_free(oracle *compiled) {
  if (!compiled) return;
  free(compiled->keep.steps);
  free(compiled->score.steps);
  free(compiled->sink.steps);
  free(compiled->params);
  free(compiled);
}

/* ---- Arithmetic ----------------------------------------------------------------------------- */

/* What an operator makes of its operands, and its derivatives by them. */
typedef struct outcome {
  double value, by_a, by_b;
} outcome;

static double sigmoid(double a) {
  return 1 / (1 + exp(-a));
}

static outcome of_one(operation does, double a) {
  switch (does) {
  case NEG:
    return (outcome){-a, -1, 0};
  case ABS:
    return (outcome){fabs(a), a >= 0 ? 1 : -1, 0}; /* max(a, -a): at a tie the first */
  case EXP:
    return (outcome){exp(a), exp(a), 0};
  case LOG:
    return (outcome){log(a), 1 / a, 0};
  case TANH:
    return (outcome){tanh(a), 1 - tanh(a) * tanh(a), 0};
  case SIGMOID:
    return (outcome){sigmoid(a), sigmoid(a) * sigmoid(-a), 0};
  case FLOOR:
    return (outcome){floor(a), 0, 0};
  default: /* NOT */
    return (outcome){a == 0, 0, 0};
  }
}

/* The remainder has the sign of the divisor, as floored division wants. */
static double floored_remainder(double a, double b) {
  double remainder = fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

static double compared(operation does, double a, double b) {
  switch (does) {
  case LT:
    return a < b;
  case LE:
    return a <= b;
  case GT:
    return a > b;
  case GE:
    return a >= b;
  case EQ:
    return a == b;
  case NE:
    return a != b;
  case AND:
    return a != 0 && b != 0;
  default: /* OR */
    return a != 0 || b != 0;
  }
}

static outcome of_two(operation does, double a, double b) {
  switch (does) {
  case ADD:
    return (outcome){a + b, 1, 1};
  case SUB:
    return (outcome){a - b, 1, -1};
  case MUL:
    return (outcome){a * b, b, a};
  case DIV:
    return (outcome){a / b, 1 / b, -a / (b * b)};
  case IDIV:
    return (outcome){floor(a / b), 0, 0};
  case MOD:
    return (outcome){floored_remainder(a, b), 0, 0};
  case MIN:
    return (outcome){a <= b ? a : b, a <= b, !(a <= b)};
  case MAX:
    return (outcome){a >= b ? a : b, a >= b, !(a >= b)};
  default:
    return (outcome){compared(does, a, b), 0, 0};
  }
}

/* ---- The stack ------------------------------------------------------------------------------ */

typedef struct dual {
  double value, slope[SLOPES_MAX];
} dual;

/* One run of a list: the pair, what s is, and which element began each slope. */
typedef struct course {
  const oracle *from;
  const cli_pair *pair;
  double s;
  int in_f32;
  size_t slots[SLOPES_MAX];
  int64_t elements[SLOPES_MAX];
} course;

/* The arrays are left as they are: they are read only where a run wrote. */
static void begin(course *c, const oracle *from, const cli_pair *pair, double s) {
  c->from = from;
  c->pair = pair;
  c->s = s;
  c->in_f32 = 0;
}

static int64_t clamped(double index, int64_t length) {
  if (!(index > 0)) return 0;
  return index < (double)length ? (int64_t)index : length - 1;
}

/* The element of a parameter that stands here; index is of a table. */
static int64_t element_of(const course *c, size_t slot, double index) {
  const oracle_param *param = &c->from->params[slot];
  const cli_sizes *sizes = &c->from->sizes;
  switch (param->layout) {
  case ORACLE_SCALAR:
    break;
  case ORACLE_PER_HEAD:
    return c->pair->head;
  case ORACLE_PER_Q:
    return c->pair->batch * sizes->seqlen_q + c->pair->row;
  case ORACLE_PER_K:
    return c->pair->batch * sizes->seqlen_k + c->pair->key;
  case ORACLE_INDEXED:
    return clamped(index, param->length);
  case ORACLE_INDEXED_PER_HEAD:
    return c->pair->head * param->length + clamped(index, param->length);
  }
  return 0;
}

static double param_value(course *c, const step *now, double index) {
  int64_t element = element_of(c, now->slot, index);
  if (now->slope >= 0) {
    c->slots[now->slope] = now->slot;
    c->elements[now->slope] = element;
  }
  return c->from->params[now->slot].values[element];
}

static double leaf_value(course *c, const step *now) {
  const cli_sizes *sizes = &c->from->sizes;
  switch (now->does) {
  case PLACE_Q:
    return (double)(c->pair->row + sizes->seqlen_k - sizes->seqlen_q);
  case PLACE_K:
    return (double)c->pair->key;
  case SCORE:
    return c->s;
  case HEAD:
    return (double)c->pair->head;
  case BATCH:
    return (double)c->pair->batch;
  case SEQLEN_Q:
    return (double)sizes->seqlen_q;
  case SEQLEN_K:
    return (double)sizes->seqlen_k;
  case HEADS_Q:
    return (double)sizes->heads_q;
  case HEADS_KV:
    return (double)sizes->heads_kv;
  case PARAM:
    return param_value(c, now, 0);
  case LENGTH:
    return (double)c->from->params[now->slot].length;
  default:
    return now->number;
  }
}

static double rounded(const course *c, double value) {
  return c->in_f32 ? (double)(float)value : value;
}

static void put_leaf(const course *c, dual *at, int slopes, double value, int slope) {
  at->value = rounded(c, value);
  for (int i = 0; i < slopes; ++i) at->slope[i] = i == slope;
}

/* What does not depend on a slope stays 0, also where the derivative is infinite. */
static double scaled(double factor, double slope) {
  return slope == 0 ? 0 : factor * slope;
}

static void put_outcome(const course *c, dual *a, const dual *b, int slopes, outcome r) {
  a->value = rounded(c, r.value);
  for (int i = 0; i < slopes; ++i)
    a->slope[i] =
        scaled(rounded(c, r.by_a), a->slope[i]) + (b ? scaled(rounded(c, r.by_b), b->slope[i]) : 0);
}

/* Carries out one step; gives the new height of the stack. */
static size_t run_step(course *c, const step *now, int slopes, dual *stack, size_t depth) {
  int takes = values_taken(now->does);
  dual *a = &stack[depth - (size_t)takes], *b = a + 1, *third = a + 2;
  if (takes == 0)
    put_leaf(c, a, slopes, leaf_value(c, now), now->slope);
  else if (now->does == TABLE)
    put_leaf(c, a, slopes, param_value(c, now, a->value), now->slope);
  else if (takes == 1)
    put_outcome(c, a, NULL, slopes, of_one(now->does, a->value));
  else if (takes == 2)
    put_outcome(c, a, b, slopes, of_two(now->does, a->value, b->value));
  else
    *a = a->value != 0 ? *b : *third;
  return depth - (size_t)takes + 1;
}

static dual run(course *c, const program *list) {
  dual stack[STACK_MAX];
  size_t depth = 0;
  for (size_t i = 0; i < list->count; ++i)
    depth = run_step(c, &list->steps[i], list->slopes, stack, depth);
  return stack[0];
}

/* ---- Answers -------------------------------------------------------------------------------- */

int oracle_keep(const oracle *o, const cli_pair *pair) {
  course c;
  begin(&c, o, pair, 0);
  return o->keep.count == 0 || run(&c, &o->keep).value != 0;
}

static double score(course *c, double *derivative) {
  dual result = {rounded(c, c->s), {1}};
  if (c->from->score.count) result = run(c, &c->from->score);
  *derivative = result.slope[0];
  return result.value;
}

double oracle_score(const oracle *o, const cli_pair *pair, double s, double *derivative) {
  course c;
  begin(&c, o, pair, s);
  return score(&c, derivative);
}

double oracle_score_f32(const oracle *o, const cli_pair *pair, double s, double *derivative) {
  course c;
  begin(&c, o, pair, s);
  c.in_f32 = 1;
  return score(&c, derivative);
}

int oracle_has_score(const oracle *o) {
  return o->score.count > 0;
}

int oracle_has_sink(const oracle *o) {
  return o->sink.count > 0;
}

double oracle_sink(const oracle *o, const cli_pair *row) {
  course c;
  begin(&c, o, row, 0);
  return run(&c, &o->sink).value;
}

static void add(course *c, const program *list, double factor, double noise,
                const oracle_sums *sums) {
  dual result = run(c, list);
  for (int i = list == &c->from->score; i < list->slopes; ++i) {
    size_t slot = c->slots[i];
    if (sums->gradients[slot])
      sums->gradients[slot][c->elements[i]] += scaled(factor, result.slope[i]);
    if (sums->noises[slot])
      sums->noises[slot][c->elements[i]] += scaled(noise, fabs(result.slope[i]));
  }
}

void oracle_add_score(const oracle *o, const cli_pair *pair, double s, double factor, double noise,
                      const oracle_sums *sums) {
  course c;
  begin(&c, o, pair, s);
  if (o->score.slopes > 1) add(&c, &o->score, factor, noise, sums);
}

void oracle_add_sink(const oracle *o, const cli_pair *row, double factor, double noise,
                     const oracle_sums *sums) {
  course c;
  begin(&c, o, row, 0);
  if (o->sink.slopes > 0) add(&c, &o->sink, factor, noise, sums);
}
