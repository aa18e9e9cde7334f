/* SPDX-License-Identifier: Apache-2.0 */
/* For the provider `nccl` on the CPU: the host's collectives stand in for NCCL's. */
#pragma once
#define fk_comm_library fk_comm_library_of_the_host
#include_next <fk/comm_library.h>
#undef fk_comm_library
static inline int32_t fk_comm_library(const fk_comm *comm) {
  return (void)comm, FK_LIBRARY_NCCL;
}
