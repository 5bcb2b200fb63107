/* render.h: spec -> text. One Lua state a call, sandboxed; no device, no clock, no environment. */
#ifndef FAGEN_GEN_RENDER_H
#define FAGEN_GEN_RENDER_H

#include "fagen.h"
#include "params.h"

/* A tile choice or other decision, for `explain`: a name, its value, and the reason for it. */
typedef struct render_fact {
  char *name, *value, *reason;
} render_fact;

/* One emitted text with the template line behind each of its lines. */
typedef struct render_text {
  char *text;
  char **origins; /* origins[i] is "templates/cpu/fwd.c.lua:12" for line i + 1 */
  size_t lines;
} render_text;

typedef struct render_result {
  char name[FA_NAME_MAX]; /* of the emitted function */
  render_text kernel;     /* NAME.cu, or NAME.c for cpu */
  render_text launch;     /* NAME_launch.c */
  render_fact *facts;
  size_t num_facts;
  /* For an oracle, in the postfix words of params.h. */
  char *keep;  /* the mask ("k q sub 5 le"); "" = all pairs kept */
  char *score; /* the score, from "s" ("s 2 mul"); "" = unchanged */
  char *sink;  /* the logit that joins each row's sum; "" = none */
  param_list params;
  char *params_text; /* what params_parse made them of */
} render_result;

/* Renders a canonical spec with a named target. overlay is a folder or NULL. On failure *out is
   empty. FA_TEMPLATE (file and line in the message), FA_UNSUPPORTED, FA_NO_MEMORY. */
fa_status render_spec(render_result *out, const fa_spec *spec, const char *overlay);
void render_free(render_result *result);

/* Replaces "NAME.c:LINE:" or "NAME.cu(LINE):" at line starts of a compiler's log by the template
   line. Yours: free(). NULL when memory is out. */
char *render_map_log(const render_text *text, const char *log, const char *file_name);

/* The `doc` sentence of a variant. Yours: free(). */
fa_status render_variant_doc(char **doc, const char *name, const char *overlay);

#endif
