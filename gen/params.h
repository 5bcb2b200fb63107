/* params.h: the parameters of a spec's variants, in slot order: variants in the order the spec names
   them, the parameters of one sorted by name.

   The postfix words of render_result (keep, score, sink) speak of parameters and all else so:
     numbers            "%.17g"
     q k                positions on the key axis: q = row + seqlen_k - seqlen_q
     s                  the score so far; in score only
     head batch         of the pair: the query head
     seqlen_q seqlen_k heads_q heads_kv
     pN                 parameter of slot N: a scalar's value; of a table without size the element
                        of this head, of this query's row, or of this key (batch x seqlen for both)
     tN                 takes an index: the element of the sized table of slot N, in the row of the
                        current query head where it has one for each head. An index past either end
                        reads the element at that end.
     nN                 length of the sized table of slot N; of one head's row where it has those
     neg not abs exp log tanh sigmoid floor
     add sub mul div idiv mod min max and or lt le gt ge eq ne
     select             takes condition, value if true, value if not
   div is real; idiv and mod are floored: idiv = floor(a / b), mod = a - idiv * b. */
#ifndef FAGEN_GEN_PARAMS_H
#define FAGEN_GEN_PARAMS_H

#include "fagen.h"

enum { PARAMS_MAX = 32 };

typedef enum param_per {
  PARAM_PER_NONE, /* a scalar, or with size a table of that length */
  PARAM_PER_HEAD, /* heads_q elements; with size heads_q rows of that length */
  PARAM_PER_Q,    /* batch x seqlen_q */
  PARAM_PER_K     /* batch x seqlen_k */
} param_per;

/* Limits hold for scalars and are checked at launch; nothing reads the values of a table. */
typedef struct variant_param {
  char variant[32], name[32];
  char size[32]; /* name of the length that is given at launch; "" = none */
  int is_int;    /* i32, else f32 */
  int per;       /* param_per */
  int grad;      /* has a gradient: f32, as many as its elements */
  int has_min, has_max, has_above, has_below;
  double min, max, above, below;
  int64_t longest; /* of a sized table, or of one head's row: the most elements; 0 = no limit */
  double draw_low, draw_high; /* what tests draw from, both ends included */
  int draw_to_seqlen_k;       /* draw_high is seqlen_k instead */
  int line;                   /* of variants/VARIANT.lua, where it is declared; 0 = not known */
} variant_param;

typedef struct param_list {
  variant_param items[PARAMS_MAX];
  int count;
} param_list;

/* Whether a parameter is a table, of whatever kind. */
int param_is_table(const variant_param *param);

/* The slot of "variant.name", -1 when there is none. */
int params_find(const param_list *list, const char *name);

/* Reads the text that templates/params.lua writes: a line for each parameter, words in the order of
   the struct's members, "-" for what is not there. FA_TEMPLATE when it is no such text. */
fa_status params_parse(param_list *out, const char *text);

#endif
