/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator: a host table, never a raw library handle, which would be valid only for the exact
 * copy of the library that made it. It reaches a plugin as an init slot (`type: comm`); null there means
 * that there is one rank. `supports` may read rank, size and what comm_library.h has, and call nothing.
 *
 * Every call enqueues on `stream` (null on the CPU) and may be captured; all ranks make the same calls in
 * the same order, with equal shapes and dtypes, captured on all of them or on none. What does not agree,
 * or does not come in time, is FK_FAILED on every rank, and stays so. Reductions give the same bits on all
 * ranks: the host's own add the ranks' values up in the order of the ranks, a library's in one of its own
 * (comm_library.h). x and out are dense, on the instance's device and of one dtype; neither is owned, and
 * only all_reduce may have them in one place. Every call first waits on the host until all ranks have made
 * it. FK_FAILED also for shapes that do not fit each other, and for calls where they have no place; error()
 * says why. The collectives are named as NCCL's are. [forward, ordered on stream; one thread of a rank at a
 * time] */
#ifndef FK_COMM_H
#define FK_COMM_H
#include "tensor.h"

/* `op` of reductions: over f64, f32, f16, bf16, i64, i32, i8 and u8. */
enum { FK_SUM = 0, FK_MAX = 1, FK_MIN = 2 };

/* Words (uint32_t) of a rank's signal pad. */
enum { FK_SIGNALS = 1024 };

/* One buffer per rank that all ranks can read and write, on a GPU from kernels as well. All of it is the
 * host's, and valid until destroy() of the instance that asked for it. */
typedef struct fk_symmetric {
  uint32_t struct_size;
  int32_t size;             /* ranks */
  int64_t bytes;            /* of each rank's buffer */
  void *const *buffers;     /* by rank, as this rank sees them; multiples of 256 bytes, zero at first */
  uint32_t *const *signals; /* by rank: a pad of FK_SIGNALS words, zero at first */
} fk_symmetric;
FK_ASSERT(offsetof(fk_symmetric, bytes) == 8 && offsetof(fk_symmetric, signals) == 24, "layout");

typedef struct fk_comm fk_comm;
struct fk_comm {
  uint32_t struct_size;
  int32_t rank, size, reserved; /* this rank, 0 to size - 1; how many; see comm_library.h */
  void *self;                   /* the host's */
  /* out [...] = reduction of x [...] over all ranks; out may be x. Shapes are equal on all ranks. */
  int32_t (*all_reduce)(const fk_comm *, const fk_in *x, const fk_out *out, int64_t op, void *stream);
  /* out [size * n, ...] = the x [n, ...] of rank 0, 1, ... */
  int32_t (*all_gather)(const fk_comm *, const fk_in *x, const fk_out *out, void *stream);
  /* out [n, ...] = this rank's part of the reduction of x [size * n, ...]. */
  int32_t (*reduce_scatter)(const fk_comm *, const fk_in *x, const fk_out *out, int64_t op,
                            void *stream);
  /* part r of x [size * n, ...] goes to rank r; part r of out comes from rank r. */
  int32_t (*all_to_all)(const fk_comm *, const fk_in *x, const fk_out *out, void *stream);
  /* Nobody goes on before all ranks are here; what they wrote to symmetric buffers is then visible. On a
   * GPU: no work that follows on a stream begins before the streams of all ranks have come so far. */
  int32_t (*barrier)(const fk_comm *, void *stream);
  /* A buffer of `bytes` on every rank, 0 or more. All ranks ask for the same sizes in the same order, and
   * wait for each other. *out is the host's. FK_FAILED where ranks are on several machines: supports()
   * refuses there (fk_comm_has_symmetric() in comm_library.h). [control: in create() or prepare() only] */
  int32_t (*symmetric)(const fk_comm *, int64_t bytes, const fk_symmetric **out);
  /* Why the last call failed, in one sentence; empty when it did not. Valid until the next call. [the
   * thread of that call] */
  const char *(*error)(const fk_comm *);
};
FK_ASSERT(offsetof(fk_comm, self) == 16 && offsetof(fk_comm, all_to_all) == 48, "layout");
FK_ASSERT(offsetof(fk_comm, barrier) == 56 && offsetof(fk_comm, error) == 72, "layout");
#endif
