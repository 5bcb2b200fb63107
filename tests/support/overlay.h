/* overlay.h: a folder of template files that a test writes, and removes again. */
#ifndef FAGEN_TESTS_SUPPORT_OVERLAY_H
#define FAGEN_TESTS_SUPPORT_OVERLAY_H

#include <stddef.h>

typedef struct overlay {
  char path[64];
} overlay;

/* A new empty folder below the system's folder for temporary files. */
void overlay_create(overlay *out);

/* Writes NAME, such as "cpu/fwd.c.lua", with the folders it needs; _bytes takes any content. */
void overlay_write(const overlay *to, const char *name, const char *text);
void overlay_write_bytes(const overlay *to, const char *name, const void *content, size_t bytes);

/* The path of a name in the folder. Static, until the next call. */
const char *overlay_path(const overlay *of, const char *name);

/* Removes the folder with all that is in it. */
void overlay_remove(overlay *of);

/* The content of a file, ended by 0: free(). Fails the test when it cannot be read. */
char *read_whole_file(const char *path);

#endif
