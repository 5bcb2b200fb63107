/* fuzz_files.h: an overlay folder with one file, the input. */
#ifndef FAGEN_TESTS_FUZZ_FUZZ_FILES_H
#define FAGEN_TESTS_FUZZ_FUZZ_FILES_H

#include "fuzz.h"

/* Writes the input to NAME in the folder of this process, which goes when it ends. */
const char *fuzz_overlay(const char *name, const uint8_t *data, size_t bytes);

/* Renders words with the overlay; checks that it gives a text, or a status and a message. */
void fuzz_render(const char *words, const char *overlay);

#endif
