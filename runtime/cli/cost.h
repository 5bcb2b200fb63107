/* cost.h: what a case costs on paper: FLOPs, bytes moved, bytes kept for backward. */
#ifndef FAGEN_CLI_COST_H
#define FAGEN_CLI_COST_H

#include "fagen.h"
#include "pairs.h"
#include "sizes.h"

/* FA_INVALID when a product of these sizes would not fit the integers that are counted with. */
fa_status cost_countable(const fa_spec *spec, const cli_sizes *sizes);

/* Print sections of `explain`, each figure with the product that it is. */
void cost_print_work(const fa_spec *spec, const cli_sizes *sizes, const visible_pairs *pairs);
void cost_print_bytes(const fa_spec *spec, const cli_sizes *sizes, const visible_pairs *pairs);
void cost_print_saved(const fa_spec *spec, const cli_sizes *sizes);

#endif
