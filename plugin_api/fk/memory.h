/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: asked for in supports(), given in prepare() and forward(), all of it owned by the host.
 *
 * So a model is known to fit before anything is loaded, and an allocation anywhere else is a violation.
 *   scratch     undefined content, lent for one forward(), shared between instances in stream order
 *   packed      repacked weights: a function of init and weights alone, written in prepare(), then
 *               read only. Instances of one op with equal init and weights share one copy.
 *   persistent  private to the instance, zeroed once, survives forward() (semaphores, state)
 *   plan        what plan() writes on the host; forward() finds its copy in device memory */
#ifndef FK_MEMORY_H
#define FK_MEMORY_H
#include "abi.h"

/* Filled by supports(): bytes, each 0 to 2^46, upper bounds for the maximum frame and every smaller one. The
 * host owns the struct and hands it over with all four 0. */
typedef struct fk_need {
  uint32_t struct_size, reserved;
  int64_t scratch, packed, persistent, plan;
} fk_need;
FK_ASSERT(offsetof(fk_need, scratch) == 8 && offsetof(fk_need, plan) == 32, "layout");

/* Given to prepare(): the struct for that call, the memory until destroy(). Device memory, aligned to 256
 * bytes; null where 0 bytes were asked for. */
typedef struct fk_memory {
  uint32_t struct_size;
  int32_t packed_ready;     /* 1: an equal instance has filled `packed` already; only read it */
  void *packed;             /* content undefined unless packed_ready */
  int64_t packed_bytes;     /* what fk_need asked for */
  void *persistent;         /* zero */
  int64_t persistent_bytes; /* what fk_need asked for */
} fk_memory;
FK_ASSERT(offsetof(fk_memory, packed) == 8 && offsetof(fk_memory, persistent_bytes) == 32, "layout");

/* Given to forward(): the struct for that call, scratch and plan until the work that it enqueued is done. */
typedef struct fk_ctx {
  uint32_t struct_size;
  int32_t device_id;     /* as in fk_host */
  void *stream;          /* cudaStream_t; null on the CPU */
  void *scratch;         /* device memory, aligned to 256 bytes, content undefined */
  int64_t scratch_bytes; /* as much as fk_need asked for, or more */
  const void *plan;      /* device copy of what plan() wrote, read only */
  int64_t plan_bytes;    /* what plan() said; 0 without one */
  fk_error *error;       /* the host's, for what forward() returns */
} fk_ctx;
FK_ASSERT(offsetof(fk_ctx, stream) == 8 && offsetof(fk_ctx, error) == 48, "layout");
#endif
