/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator: a table of host functions. A raw library handle would work only with the exact
 * copy of the library that made it.
 *
 * A plugin receives the communicator in an init slot (`type: comm`). Null means one rank.
 * supports() may read rank, size and the functions of comm_library.h. It may call no function of
 * the table.
 *
 * Rules of the collectives and barrier(), which forward() alone may call:
 *   order     All ranks make the same calls in the same order, with equal shapes and dtypes.
 *   stream    A call enqueues on `stream`, null on the CPU. All ranks capture a call, or none.
 *   waiting   A call first waits on the host until all ranks have made it.
 *   tensors   x and out are dense, of one dtype, on the instance's device. The caller owns both.
 *             Only all_reduce may have x and out in one place.
 *   failure   A call fails on every rank if calls disagree, shapes do not fit, a rank is late, or
 *             the calling function is wrong. All later calls fail, too. error() gives the reason.
 *   sums      A reduction gives the same bits on all ranks. The host's own collectives add in the
 *             order of the ranks. A library's collectives choose their order (comm_library.h).
 * Collectives have NCCL's names. [forward, ordered on stream; one thread of a rank at a time] */
#ifndef FK_COMM_H
#define FK_COMM_H
#include "tensor.h"

/* `op` of reductions. Dtypes: f64, f32, f16, bf16, i64, i32, i8 and u8. */
enum { FK_SUM = 0, FK_MAX = 1, FK_MIN = 2 };

/* Length of a rank's signal pad, in words of uint32_t. */
enum { FK_SIGNALS = 1024 };

/* One buffer per rank. All ranks can read and write all buffers, on a GPU also from kernels. The
 * host owns this struct and the buffers. They are valid until destroy() of the instance that asked
 * for them. */
typedef struct fk_symmetric {
  uint32_t struct_size;
  int32_t size;             /* number of ranks */
  int64_t bytes;            /* size of each rank's buffer */
  void *const *buffers;     /* [size] addresses on this rank, aligned to 256 bytes; zeroed once */
  uint32_t *const *signals; /* [size] pads of FK_SIGNALS words, zeroed once */
} fk_symmetric;
FK_ASSERT(offsetof(fk_symmetric, bytes) == 8 && offsetof(fk_symmetric, signals) == 24, "layout");

typedef struct fk_comm fk_comm;
struct fk_comm {
  uint32_t struct_size;
  int32_t rank, size; /* 0 <= rank < size = number of ranks */
  int32_t facts;      /* read by the functions of comm_library.h alone */
  void *self;                   /* private to the host */
  /* out [...] = reduction of x [...] over all ranks. out may be x. */
  int32_t (*all_reduce)(const fk_comm *, const fk_in *x, const fk_out *out, int64_t op, void *stream);
  /* out [size * n, ...] = x [n, ...] of all ranks, in the order of the ranks. */
  int32_t (*all_gather)(const fk_comm *, const fk_in *x, const fk_out *out, void *stream);
  /* out [n, ...] = part `rank` of the reduction of x [size * n, ...] over all ranks. */
  int32_t (*reduce_scatter)(const fk_comm *, const fk_in *x, const fk_out *out, int64_t op,
                            void *stream);
  /* x and out are [size * n, ...]. Part r of x goes to rank r. Part r of out comes from rank r. */
  int32_t (*all_to_all)(const fk_comm *, const fk_in *x, const fk_out *out, void *stream);
  /* No rank passes before all ranks arrive. Earlier writes to symmetric buffers are then visible.
   * On a GPU, later work on the stream starts after the streams of all ranks have reached the
   * barrier. */
  int32_t (*barrier)(const fk_comm *, void *stream);
  /* Makes a buffer of `bytes` >= 0 on every rank. All ranks ask for the same sizes in the same
   * order and wait for each other. The host owns *out. FK_FAILED if the ranks are on several
   * machines: refuse that in supports() (fk_comm_has_symmetric()). [control: in create() or
   * prepare() only] */
  int32_t (*symmetric)(const fk_comm *, int64_t bytes, const fk_symmetric **out);
  /* One sentence with the reason of the last call's failure, or "" after a success. The host owns
   * the text. It is valid until the next call. [the thread of the last call] */
  const char *(*error)(const fk_comm *);
};
FK_ASSERT(offsetof(fk_comm, self) == 16 && offsetof(fk_comm, all_to_all) == 48, "layout");
FK_ASSERT(offsetof(fk_comm, barrier) == 56 && offsetof(fk_comm, error) == 72, "layout");
#endif
