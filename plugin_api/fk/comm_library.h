/* SPDX-License-Identifier: Apache-2.0 */
/* Two properties of a communicator, which supports() may read.
 *
 * Library: the implementation of the collectives. The host's own collectives add the ranks' values
 * in the order of the ranks. A library chooses its own order and may round at every rank. Both give
 * the same bits on all ranks.
 *
 * Symmetric buffers: ranks on several machines share no memory and have none. symmetric() fails
 * there.
 *
 * All ranks get equal answers. They do not change while the communicator lives. [any thread] */
#ifndef FK_COMM_LIBRARY_H
#define FK_COMM_LIBRARY_H
#include "comm.h"

enum { FK_LIBRARY_NONE = 0, FK_LIBRARY_NCCL = 1 };
enum { FK_COMM_APART = 256 }; /* flag in the same word: the ranks are on several machines */

/* The library of the collectives: FK_LIBRARY_... */
static inline int32_t fk_comm_library(const fk_comm *comm) {
  return comm->facts & 255;
}
/* 1: symmetric() can make buffers; 0: it fails. */
static inline int32_t fk_comm_has_symmetric(const fk_comm *comm) {
  return (comm->facts & FK_COMM_APART) == 0;
}
#endif
