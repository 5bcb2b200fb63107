/* oracle.c: postfix words to a list of steps, and dual numbers that run it: each has a slope for s
   and one for each element of a parameter that a pair reads. Equal words over equal operands are
   one step, for the words of composed scores repeat themselves. */
#include "oracle.h"

#include "gen/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_MAX = 64, STEPS_MAX = 512, SLOPES_MAX = 32 };

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
  size_t slot;  /* of PARAM, TABLE and LENGTH */
  int takes[3]; /* the steps whose values it takes; 0 where it takes none */
  int slope;    /* the slope that begins here; -1 = none */
} step;

typedef struct program {
  const char *what; /* "mask", "score", "sink" */
  step *steps;      /* the last one gives the answer */
  int count;
  int slopes; /* in use; the score's first is by s */
} program;

/* The words of a list, being read: what each leaves on the stack, as the step that makes it. */
typedef struct reader {
  program *list;
  const oracle *from;
  int stack[STACK_MAX], depth;
} reader;

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

/* What a word says, by itself. */
static fa_status read_word(step *out, const reader *r, const char *text, size_t length) {
  const char *what = r->list->what;
  *out = (step){.does = NUMBER, .slope = -1};
  if (!find_word(&out->does, text, length) && !read_number(&out->number, text, length) &&
      !read_slot(out, r->from, text, length))
    return fail(FA_INVALID,
                "oracle: '%.*s' in the %s; a word is a number, a leaf, a parameter below %zu that "
                "is there, or an operator, with single spaces between",
                (int)length, text, what, r->from->num_params);
  if (out->does == SCORE && r->list != &r->from->score)
    return fail(FA_INVALID, "oracle: 's' in a %s; only a score depends on it", what);
  return FA_OK;
}

/* Gives the step its operands, off the stack. */
static fa_status take_operands(step *out, reader *r, const char *text, size_t length) {
  int takes = values_taken(out->does);
  if (r->depth < takes)
    return fail(FA_INVALID, "oracle: '%.*s' takes %d values, %d on the stack", (int)length, text,
                takes, r->depth);
  r->depth -= takes;
  for (int i = 0; i < takes; ++i) out->takes[i] = r->stack[r->depth + i];
  return FA_OK;
}

static int is_same(const step *a, const step *b) {
  return a->does == b->does && a->number == b->number && a->slot == b->slot &&
         !memcmp(a->takes, b->takes, sizeof a->takes);
}

static fa_status begin_slope(step *out, const reader *r) {
  program *list = r->list;
  int has_slot = out->does == PARAM || out->does == TABLE;
  out->slope = out->does == SCORE ? 0 : -1;
  if (!has_slot || !r->from->params[out->slot].grad || list == &r->from->keep) return FA_OK;
  if (list->slopes == SLOPES_MAX)
    return fail(FA_INVALID, "oracle: the %s reads more than %d elements of parameters for a pair",
                list->what, SLOPES_MAX);
  out->slope = list->slopes++;
  return FA_OK;
}

/* Finds the step among those before, or adds it, and leaves it on the stack. */
static fa_status push_step(reader *r, step *now) {
  program *list = r->list;
  int at = 0;
  if (r->depth == STACK_MAX)
    return fail(FA_INVALID, "oracle: %d values on the stack; at most %d", r->depth + 1, STACK_MAX);
  while (at < list->count && !is_same(&list->steps[at], now)) ++at;
  r->stack[r->depth++] = at;
  if (at < list->count) return FA_OK;
  if (at == STEPS_MAX)
    return fail(FA_INVALID, "oracle: the %s has more than %d different steps", list->what,
                STEPS_MAX);
  fa_status status = begin_slope(now, r);
  list->steps[list->count++] = *now;
  return status;
}

static fa_status compile(program *out, const oracle *o, const char *text) {
  reader r = {.list = out, .from = o};
  if (*text == '\0') return FA_OK;
  out->steps = malloc(STEPS_MAX * sizeof *out->steps);
  if (!out->steps) return fail(FA_NO_MEMORY, "oracle: no memory for %d steps", STEPS_MAX);
  for (const char *at = text;;) {
    size_t length = strcspn(at, " ");
    step now;
    fa_status status = read_word(&now, &r, at, length);
    if (!status) status = take_operands(&now, &r, at, length);
    if (!status) status = push_step(&r, &now);
    if (status) return status;
    if (at[length] == '\0') break;
    at += length + 1;
  }
  if (r.depth != 1)
    return fail(FA_INVALID, "oracle: '%s' leaves %d values; it must leave 1", text, r.depth);
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

/* ---- Running -------------------------------------------------------------------------------- */

/* One run of a list: the pair, what s is, the value and slopes of every step so far, and which
   element began each slope. */
typedef struct course {
  const oracle *from;
  const cli_pair *pair;
  double s;
  int in_f32, on_gpu;
  double values[STEPS_MAX], slopes[STEPS_MAX][SLOPES_MAX];
  size_t slots[SLOPES_MAX];
  int64_t elements[SLOPES_MAX];
} course;

/* The arrays are left as they are: they are read only where a run wrote. */
static void begin(course *c, const oracle *from, const cli_pair *pair, double s) {
  c->from = from;
  c->pair = pair;
  c->s = s;
  c->in_f32 = c->on_gpu = 0;
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

/* What does not depend on a slope stays 0, also where the derivative is infinite. */
static double scaled(double factor, double slope) {
  return slope == 0 ? 0 : factor * slope;
}

static void put_leaf(course *c, int at, int slopes, double value, int slope) {
  c->values[at] = rounded(c, value);
  for (int i = 0; i < slopes; ++i) c->slopes[at][i] = i == slope;
}

/* A GPU's tanh is 1 - 2 / (1 + e^2x), right to 2^-22 of 1 and not of itself. */
static double on_grid(double value) {
  return round(value * 0x1p22) * 0x1p-22;
}

static void put_outcome(course *c, int at, int slopes, outcome r, const int takes[3]) {
  const double by_a = rounded(c, r.by_a), by_b = rounded(c, r.by_b);
  c->values[at] = rounded(c, r.value);
  for (int i = 0; i < slopes; ++i)
    c->slopes[at][i] = scaled(by_a, c->slopes[takes[0]][i]) + scaled(by_b, c->slopes[takes[1]][i]);
}

static void put_copy(course *c, int at, int slopes, int from) {
  c->values[at] = c->values[from];
  for (int i = 0; i < slopes; ++i) c->slopes[at][i] = c->slopes[from][i];
}

static void run_step(course *c, const step *now, int at, int slopes) {
  const int *takes = now->takes, count = values_taken(now->does);
  const double a = count > 0 ? c->values[takes[0]] : 0, b = count > 1 ? c->values[takes[1]] : 0;
  if (count == 0)
    put_leaf(c, at, slopes, leaf_value(c, now), now->slope);
  else if (now->does == TABLE)
    put_leaf(c, at, slopes, param_value(c, now, a), now->slope);
  else if (count == 3)
    put_copy(c, at, slopes, a != 0 ? takes[1] : takes[2]);
  else {
    outcome of = count == 1 ? of_one(now->does, a) : of_two(now->does, a, b);
    if (now->does == TANH && c->on_gpu) of.value = on_grid(of.value);
    put_outcome(c, at, slopes, of, takes);
  }
}

/* The last step, which has the answer. */
static int run(course *c, const program *list) {
  for (int at = 0; at < list->count; ++at) run_step(c, &list->steps[at], at, list->slopes);
  return list->count - 1;
}

/* ---- Answers -------------------------------------------------------------------------------- */

int oracle_keep(const oracle *o, const cli_pair *pair) {
  course c;
  begin(&c, o, pair, 0);
  return o->keep.count == 0 || c.values[run(&c, &o->keep)] != 0;
}

static double score(course *c, double *derivative) {
  if (!c->from->score.count) {
    *derivative = 1;
    return rounded(c, c->s);
  }
  int answer = run(c, &c->from->score);
  *derivative = c->slopes[answer][0];
  return c->values[answer];
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

double oracle_score_gpu(const oracle *o, const cli_pair *pair, double s, double *derivative) {
  course c;
  begin(&c, o, pair, s);
  c.in_f32 = c.on_gpu = 1;
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
  return c.values[run(&c, &o->sink)];
}

static void add(course *c, const program *list, double factor, double noise,
                const oracle_sums *sums) {
  const double *slopes = c->slopes[run(c, list)];
  for (int i = list == &c->from->score; i < list->slopes; ++i) {
    size_t slot = c->slots[i];
    double lost = scaled(noise, slopes[i]);
    if (sums->gradients[slot]) sums->gradients[slot][c->elements[i]] += scaled(factor, slopes[i]);
    if (sums->noises[slot]) sums->noises[slot][c->elements[i]] += lost * lost;
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
