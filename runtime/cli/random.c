/* random.c: a hash of what the number is for (the finaliser of splitmix64, Steele, Lea and Flood,
   2014), made normal by Box and Muller. */
#include "random.h"

#include <math.h>

static uint64_t mix(uint64_t state, uint64_t word) {
  uint64_t z = state + (word + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static uint64_t hash_of(uint64_t seed, uint64_t tensor, const int64_t at[4]) {
  uint64_t hash = mix(mix(0, seed), tensor);
  for (int i = 0; i < 4; ++i) hash = mix(hash, (uint64_t)at[i]);
  return hash;
}

double random_normal(uint64_t seed, uint64_t tensor, const int64_t at[4]) {
  const double pi = 3.14159265358979323846;
  uint64_t hash = hash_of(seed, tensor, at);
  double radius = ldexp((double)(mix(hash, 0) >> 11) + 1, -53); /* above 0, for the logarithm */
  double angle = ldexp((double)(mix(hash, 1) >> 11), -53);
  return sqrt(-2 * log(radius)) * cos(2 * pi * angle);
}

double random_uniform(uint64_t seed, uint64_t tensor, const int64_t at[4]) {
  return ldexp((double)(mix(hash_of(seed, tensor, at), 0) >> 11), -53);
}
