/* occupancy.h: the limits of each architecture's multiprocessor, and how many blocks of a kernel
   fit it. Pure: asks no driver. */
#ifndef FAGEN_CLI_OCCUPANCY_H
#define FAGEN_CLI_OCCUPANCY_H

/* One device of an architecture, to reckon with where there is none. */
typedef struct gpu_model {
  int arch;
  const char *device;
  int processors; /* multiprocessors */
  long long l2_bytes;
  /* Of any device of the architecture. */
  int warps, blocks;      /* resident on a multiprocessor */
  int shared_bytes;       /* of a multiprocessor */
  int block_shared_bytes; /* of a block, after opting in */
} gpu_model;

/* NULL for a number that is no arch of a spec. */
const gpu_model *gpu_model_of(int arch);

typedef struct occupancy {
  int blocks, warps; /* resident on a multiprocessor; 0 = a block does not fit */
  const char *limit; /* what keeps one more block away: "registers", "shared memory", ... */
} occupancy;

/* Of blocks of that many threads, with static and dynamic shared memory together. */
occupancy occupancy_of(const gpu_model *model, int registers, int shared_bytes, int threads);

#endif
