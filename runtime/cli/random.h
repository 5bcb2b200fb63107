/* random.h: random numbers that depend on what they are for and on nothing else. */
#ifndef FAGEN_CLI_RANDOM_H
#define FAGEN_CLI_RANDOM_H

#include <stdint.h>

/* A draw from the normal distribution (0, 1) for one element of one tensor: the same value in any
   order, and for any sizes of the problem around it. */
double random_normal(uint64_t seed, uint64_t tensor, const int64_t at[4]);

/* Likewise, from the uniform distribution on [0, 1). */
double random_uniform(uint64_t seed, uint64_t tensor, const int64_t at[4]);

#endif
