/* text.c: reads the files and draws training stretches from them. */
#include "train_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Appends a file of any kind, pipes included. */
static bool append_file(text *out, size_t *capacity, FILE *file) {
  for (;;) {
    if (out->count == *capacity) {
      size_t larger = *capacity ? 2 * *capacity : 1 << 16;
      uint8_t *bytes = realloc(out->bytes, larger);
      if (!bytes) return false;
      out->bytes = bytes;
      *capacity = larger;
    }
    size_t got = fread(out->bytes + out->count, 1, *capacity - out->count, file);
    out->count += got;
    if (got == 0) return !ferror(file);
  }
}

bool text_read(text *out, const char **files, int64_t num_files) {
  size_t capacity = 0;
  *out = (text){NULL, 0};
  for (int64_t i = 0; i < num_files; ++i) {
    size_t before = out->count;
    FILE *file = fopen(files[i], "rb");
    bool read = file && append_file(out, &capacity, file);
    int error = errno;
    if (file) fclose(file);
    if (!read) {
      fprintf(stderr, "train_text: FILE %s cannot be read: %s\n", files[i], strerror(error));
      return false;
    }
    if (out->count == before) {
      fprintf(stderr, "train_text: FILE %s is empty; it must have at least 1 byte\n", files[i]);
      return false;
    }
  }
  return true;
}

uint64_t random_bits(random_state *random) {
  uint64_t z = random->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

double random_uniform(random_state *random) {
  return (double)(random_bits(random) >> 11) * 0x1p-53;
}

double random_normal(random_state *random) {
  const double two_pi = 6.283185307179586;
  double radius = sqrt(-2 * log(1 - random_uniform(random)));
  return radius * cos(two_pi * random_uniform(random));
}

void text_draw(const text *from, random_state *random, int64_t batch, int64_t length,
               uint8_t *tokens, uint8_t *next) {
  for (int64_t b = 0; b < batch; ++b) {
    size_t start = (size_t)(random_bits(random) % (from->count - (size_t)length));
    memcpy(tokens + b * length, from->bytes + start, (size_t)length);
    memcpy(next + b * length, from->bytes + start + 1, (size_t)length);
  }
}
