/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator can do, for `supports`. Whose code its collectives are: the host's own add up the
 * ranks' values in the order of the ranks; a library has an order of its own, and may round at every rank.
 * The bits are the same on all ranks with both. And whether there are symmetric buffers: not between ranks
 * on several machines, which share no memory; symmetric() is FK_FAILED there. Both answers are the same on
 * all ranks, and as long as the communicator lives. [any thread, supports() included] */
#ifndef FK_COMM_LIBRARY_H
#define FK_COMM_LIBRARY_H
#include "comm.h"

enum { FK_LIBRARY_NONE = 0, FK_LIBRARY_NCCL = 1 };
enum { FK_COMM_APART = 256 }; /* a bit beside it: the ranks are on several machines */

/* FK_LIBRARY_...: of the collectives. */
static inline int32_t fk_comm_library(const fk_comm *comm) {
  return comm->reserved & 255;
}
/* 1 when symmetric() may be asked, else 0. */
static inline int32_t fk_comm_has_symmetric(const fk_comm *comm) {
  return (comm->reserved & FK_COMM_APART) == 0;
}
#endif
