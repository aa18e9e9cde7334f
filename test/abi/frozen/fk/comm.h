/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator: a host table, never a raw library handle, which would be valid only for the exact
 * copy of the library that made it. It reaches a plugin as an init slot (`type: comm`).
 *
 * Every call enqueues on `stream` (null on the CPU) and may be captured; all ranks make the same calls in
 * the same order, captured on all of them or on none. [forward, ordered on stream] */
#ifndef FK_COMM_H
#define FK_COMM_H
#include "tensor.h"

enum { FK_SUM = 0, FK_MAX = 1, FK_MIN = 2 };

typedef struct fk_comm fk_comm;
struct fk_comm {
  uint32_t struct_size;
  int32_t rank, size, reserved;
  void *self; /* the host's */
  /* out = reduction of x over all ranks; out may be x. Shapes are equal on all ranks. */
  int32_t (*all_reduce)(const fk_comm *, const fk_in *x, const fk_out *out, int64_t op, void *stream);
  /* out [size * n, ...] = the x [n, ...] of rank 0, 1, ... */
  int32_t (*all_gather)(const fk_comm *, const fk_in *x, const fk_out *out, void *stream);
  /* out [n, ...] = this rank's part of the reduction of x [size * n, ...]. */
  int32_t (*reduce_scatter)(const fk_comm *, const fk_in *x, const fk_out *out, int64_t op,
                            void *stream);
  /* part r of x [size * n, ...] goes to rank r; part r of out comes from rank r. */
  int32_t (*all_to_all)(const fk_comm *, const fk_in *x, const fk_out *out, void *stream);
};
FK_ASSERT(offsetof(fk_comm, self) == 16 && offsetof(fk_comm, all_to_all) == 48, "layout");
#endif
