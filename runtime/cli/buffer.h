/* buffer.h: device memory between guard bands, and the strided tensors in it. */
#ifndef FAGEN_CLI_BUFFER_H
#define FAGEN_CLI_BUFFER_H

#include "fagen.h"

enum { BUFFER_GUARD = 256 }; /* bytes before and after; keeps the payload's alignment */

/* Indices and strides run over batch, row, head, column. */
typedef struct view {
  int dtype;
  size_t offset; /* of element 0 in the payload, in bytes */
  int64_t extent[4], stride[4];
} view;

typedef struct buffer {
  fa_context *context;
  unsigned char *device; /* guards included, as all below */
  unsigned char *image;  /* what the device is expected to hold */
  unsigned char *found;  /* what buffer_download saw */
  size_t bytes;
} buffer;

/* The first or the next index below extent, columns fastest: `at` starts at 0 0 0 0. 0 at the end.
 */
int view_next(int64_t at[4], const int64_t extent[4]);

/* The product of the extents. */
int64_t view_count(const int64_t extent[4]);

/* Elements from element 0 to the one at this index. */
int64_t view_index(const view *shape, const int64_t at[4]);

/* Elements from the first to the last, that one included. */
int64_t view_span(const view *shape);

/* Sets the strides of a tensor that has no gaps, columns fastest. */
void view_dense(int64_t stride[4], const int64_t extent[4]);

/* Every byte of image and device is `fill`. buffer_free also after a failure. */
fa_status buffer_create(buffer *out, fa_context *context, size_t payload_bytes, int fill);
void buffer_free(buffer *memory);

/* Device address of a byte of the payload. */
void *buffer_payload(const buffer *memory, size_t offset);

/* Stores one element in the image, to be uploaded. */
void buffer_write(buffer *memory, const view *tensor, const int64_t at[4], double value);

fa_status buffer_upload(buffer *memory);
fa_status buffer_download(buffer *memory);

/* Reads an element that the kernel may have written, and from now on expects it as it was found. */
double buffer_accept(buffer *memory, const view *tensor, const int64_t at[4]);

/* Whether everything, or the guard bands alone, is as expected. */
int buffer_intact(const buffer *memory, int guards_only);

#endif
