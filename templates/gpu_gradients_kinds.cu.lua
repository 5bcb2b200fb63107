% -- How what pairs add to a gradient is summed, by kind: see gpu_gradients.lua.
% local kinds = {}
% for _, read in ipairs(require("gpu_gradients").reads) do kinds[read.kind] = true end
% if kinds.sum or kinds.diagonal then
/* The sum over the block, in all threads. */
DEVICE float sum_of_block(float x) {
  __shared__ float of_warps[WARPS];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    x = add(x, __shfl_xor_sync(0xffffffffu, x, distance));
  __syncthreads(); /* nobody reads an earlier sum any more */
  if (threadIdx.x % 32 == 0)
    of_warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = of_warps[0];
#pragma unroll
  for (int warp = 1; warp < WARPS; ++warp)
    x = add(x, of_warps[warp]);
  return x;
}

% end
% if kinds.sum then
/* Of all pairs. */
struct sum {
  float all, of_tile;

  MEMBER void begin() { all = 0.0f; }
  MEMBER void begin_tile() { of_tile = 0.0f; }
  MEMBER void add_pair(float x) { of_tile = add(of_tile, x); }
  MEMBER void end_tile() { all = add(all, of_tile); }
  MEMBER void end(float *parts) {
    all = sum_of_block(all);
    if (threadIdx.x == 0)
      parts[blockIdx.x] = all;
  }
};

% end
% if kinds.row or kinds.key then
/* Sums of lines of a tile, rows or columns, that some warps share. */
template <int lines, int warps> struct line_sums {
  float of_warps[warps][lines];

  /* To the workspace, for the lines of a tile of some head. */
  MEMBER void store(float *parts, long long any_head, int tile, int length) const {
    const int line = threadIdx.x, place = tile * lines + line;
    if (line >= lines || place >= length)
      return;
    float sum = of_warps[0][line];
#pragma unroll
    for (int warp = 1; warp < warps; ++warp)
      sum = add(sum, of_warps[warp][line]);
    parts[any_head * length + place] = sum;
  }
};

% end
% if kinds.row then
/* Of the pairs of each query. */
struct row_sums {
  float of_lane[PART / 16][2];

  MEMBER void begin() {
#pragma unroll
    for (int i = 0; i < PART / 8; ++i)
      of_lane[i / 2][i % 2] = 0.0f;
  }
  MEMBER void add_pair(int i, int e, float x) { of_lane[i][e / 2] = add(of_lane[i][e / 2], x); }
  MEMBER void end(float *parts, int any_head, int first_row, int tile, int length) const {
    __shared__ line_sums<QUERIES, WARPS / 2> sums;
    __syncthreads(); /* nobody reads earlier sums any more */
#pragma unroll
    for (int i = 0; i < PART / 8; ++i) {
      float x = of_lane[i / 2][i % 2];
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2)
        x = add(x, __shfl_xor_sync(0xffffffffu, x, distance));
      if (threadIdx.x % 4 == 0)
        sums.of_warps[threadIdx.x / 64][first_row + 8 * i] = x;
    }
    __syncthreads();
    sums.store(parts, any_head, tile, length);
  }
};

% end
% if kinds.key then
/* Of the pairs of each key. */
struct key_sums {
  float of_lane[PART / 8][2];

  MEMBER void begin() {
#pragma unroll
    for (int i = 0; i < PART / 4; ++i)
      of_lane[i / 2][i % 2] = 0.0f;
  }
  MEMBER void add_pair(int j, int e, float x) { of_lane[j][e % 2] = add(of_lane[j][e % 2], x); }
  MEMBER void end(float *parts, int any_head, int first_column, int tile, int length) const {
    __shared__ line_sums<KEYS, 2> sums;
    __syncthreads(); /* nobody reads earlier sums any more */
#pragma unroll
    for (int i = 0; i < PART / 4; ++i) {
      float x = of_lane[i / 2][i % 2];
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2)
        x = add(x, __shfl_xor_sync(0xffffffffu, x, distance));
      if (threadIdx.x % 32 < 4)
        sums.of_warps[threadIdx.x / 32 % 2][first_column + i / 2 * 8 + i % 2] = x;
    }
    __syncthreads();
    sums.store(parts, any_head, tile, length);
  }
};

% end
% if kinds.diagonal or kinds.distance then
/* The sum of the pairs of a tile whose column - row is this. */
DEVICE float sum_of_diagonal(const float *pairs, int distance) {
  float sum = 0.0f;
#pragma unroll 16
  for (int row = 0; row < QUERIES; ++row)
    if (row + distance >= 0 && row + distance < KEYS)
      sum = add(sum, pairs[row * PITCH + row + distance]);
  return sum;
}

% end
% if kinds.diagonal then
/* Into a table that is read at sign * distance + a number. Each diagonal of a tile belongs to one
 * element: to the first and the last, all that are beyond. */
template <int sign> struct diagonal_sums {
  float *sums, *pairs;
  int length, at, most; /* elements of the pair 0, 0 of a tile and the most of it, without ends */
  float first, last, of_tile;
  bool spread; /* whether not all pairs of the tile belong to one end */

  MEMBER void begin(float *parts, int of_table, unsigned char *pairs_place) {
    length = of_table;
    sums = parts + (long long)blockIdx.x * length;
    pairs = (float *)pairs_place;
    first = last = 0.0f;
    for (int i = threadIdx.x; i < length; i += THREADS)
      sums[i] = 0.0f;
  }
  MEMBER void begin_tile(int element) {
    at = element;
    most = at + (sign > 0 ? KEYS : QUERIES) - 1;
    spread = most > 0 && most - (QUERIES + KEYS - 2) < length - 1;
    of_tile = 0.0f;
  }
  MEMBER void add_pair(int row, int column, float x) {
    if (spread)
      pairs[row * PITCH + column] = x;
    else
      of_tile = add(of_tile, x);
  }
  MEMBER void end_tile() {
    int element = most;
    if (spread) {
      __syncthreads(); /* all pairs are there */
      const int distance = (int)threadIdx.x - (QUERIES - 1);
      of_tile = sum_of_diagonal(pairs, distance); /* 0 past the last diagonal */
      element = at + sign * min(distance, KEYS - 1);
      if (distance < KEYS && element > 0 && element < length - 1)
        sums[element] = add(sums[element], of_tile);
    }
    if (element <= 0)
      first = add(first, of_tile);
    else if (element >= length - 1)
      last = add(last, of_tile);
  }
  MEMBER void end() {
    first = sum_of_block(first);
    last = sum_of_block(last);
    if (threadIdx.x == 0) {
      sums[0] = first;
      sums[length - 1] = add(sums[length - 1], last); /* there may be only one */
    }
  }
};

% end
% if kinds.distance or kinds.pair then
/* Into a table of the warp's own. */
struct table_sums {
  float *sums;

  MEMBER void begin(float *parts, int length) {
    sums = parts + ((long long)blockIdx.x * WARPS + threadIdx.x / 32) * length;
    for (int i = threadIdx.x % 32; i < length; i += 32)
      sums[i] = 0.0f;
    __syncwarp();
  }
  /* Adds a value of each lane; those of one element in the order of the lanes. */
  MEMBER void add_lanes(int element, float x) {
    if (__all_sync(0xffffffffu, __float_as_uint(x) == 0))
      return;
    const unsigned lanes = __match_any_sync(0xffffffffu, element);
    float sum = 0.0f;
#pragma unroll
    for (int lane = 0; lane < 32; ++lane) {
      const float other = __shfl_sync(0xffffffffu, x, lane);
      if (lanes >> lane & 1)
        sum = add(sum, other);
    }
    if (threadIdx.x % 32 == __ffs(lanes) - 1)
      sums[element] = add(sums[element], sum);
    __syncwarp();
  }
};

% end
% if kinds.distance then
/* Into a table that is read at what follows from a distance. */
struct distance_sums : table_sums {
  float *pairs;

  MEMBER void begin(float *parts, int length, unsigned char *pairs_place) {
    table_sums::begin(parts, length);
    pairs = (float *)pairs_place;
  }
  MEMBER void add_pair(int row, int column, float x) { pairs[row * PITCH + column] = x; }
  /* Diagonal and element of this thread. */
  MEMBER void end_tile(int diagonal, int element) {
    __syncthreads(); /* all pairs are there */
    add_lanes(element, sum_of_diagonal(pairs, diagonal));
  }
};

% end
% if kinds.pair then
/* Into a table that is read anywhere. */
struct pair_sums : table_sums {
  float *pairs;
  int *elements;

  MEMBER void begin(float *parts, int length, unsigned char *pairs_place) {
    table_sums::begin(parts, length);
    pairs = (float *)pairs_place;
    elements = (int *)(pairs_place + PAIR_BYTES);
  }
  MEMBER void add_pair(int row, int column, float x, int element) {
    pairs[row * PITCH + column] = x;
    elements[row * PITCH + column] = element;
  }
  MEMBER void end_tile() {
    __syncthreads(); /* all pairs are there */
#pragma unroll 1
    for (int pair = threadIdx.x; pair < QUERIES * KEYS; pair += THREADS) {
      const int place = pair / KEYS * PITCH + pair % KEYS;
      add_lanes(elements[place], pairs[place]);
    }
  }
};

% end
