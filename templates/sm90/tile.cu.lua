% -- How tiles come into shared memory, in rings of buffers, and how wgmma finds them there.
/* ---- Rings of buffers ---------------------------------------------------------------------------
 * Two barriers a buffer: `full`, its bytes have arrived, and `empty`, all have read them. */

/* A place in a ring; the parity of its barriers turns with each round. */
struct ring_place {
  int buffer;
  unsigned parity;
};

template <int buffers> DEVICE void advance(ring_place &at) {
  if (++at.buffer == buffers) {
    at.buffer = 0;
    at.parity ^= 1;
  }
}

/* barriers: the first of a ring's full, or of its empty ones, 8 bytes each. */
DEVICE void wait(unsigned barriers, ring_place at) {
  mbarrier_wait(barriers + 8 * at.buffer, at.parity);
}

/* One arrival a warp. */
DEVICE void release(unsigned barriers, ring_place at) {
  if (threadIdx.x % 32 == 0)
    mbarrier_arrive(barriers + 8 * at.buffer);
}

/* Starts copying a tile: `rows` rows from `row` on, chunk by chunk. */
template <int chunks>
DEVICE void load_tile(unsigned to, int rows, const tensor_map &map, int row, int head, int batch,
                      unsigned full) {
#pragma unroll
  for (int chunk = 0; chunk < chunks; ++chunk)
    tma_load(to + chunk * rows * CHUNK_ROW, map, chunk * CHUNK, row, head, batch, full);
}

/* ---- Tiles for wgmma ------------------------------------------------------------------------- */

/* The lower word of a tile's descriptor; moving the tile adds bytes / 16 to it. chunk_bytes, from
   one chunk to the next, is of use where the columns of the product run along the row, as for V. */
DEVICE unsigned tile_word(unsigned address, int chunk_bytes) {
  return address >> 4 | (unsigned)chunk_bytes >> 4 << 16;
}

/* The upper word is the same for all: 8 rows are 1024 bytes, swizzled over 128. */
DEVICE descriptor describe(unsigned word) {
  const unsigned eight_rows = 8 * CHUNK_ROW >> 4, swizzle_128 = 1u << 30;
  return (descriptor)(eight_rows | swizzle_128) << 32 | word;
}
