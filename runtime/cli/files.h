/* files.h: writing whole files into a folder. */
#ifndef FAGEN_CLI_FILES_H
#define FAGEN_CLI_FILES_H

#include <stddef.h>

/* Each gives 0, or errno. */

/* Makes the folder and its parents; one that exists is right. ENOTDIR when a file is in the way. */
int files_make_folder(const char *path);

/* Writes FOLDER/NAME: complete, or as it was before. Several processes may write the same name. */
int files_write(const char *folder, const char *name, const void *bytes, size_t count);

#endif
