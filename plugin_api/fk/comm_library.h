/* SPDX-License-Identifier: Apache-2.0 */
/* Whose code a communicator's collectives are, for `supports`: the host's own add up the ranks' values in
 * the order of the ranks; a library has an order of its own, and may round at every rank. The bits are the
 * same on all ranks with both. */
#ifndef FK_COMM_LIBRARY_H
#define FK_COMM_LIBRARY_H
#include "comm.h"

enum { FK_LIBRARY_NONE = 0, FK_LIBRARY_NCCL = 1 };

static inline int32_t fk_comm_library(const fk_comm *comm) {
  return comm->reserved;
}
#endif
