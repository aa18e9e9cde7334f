/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of an instance. supports() states its size; prepare() and forward() receive it; the host
 * owns it.
 *
 * The host can therefore compute a model's memory before it loads the model. A plugin that
 * allocates device memory itself breaks the rules.
 *   scratch     lent for one forward(), content undefined. Instances share it in stream order.
 *   packed      repacked weights, a function of init and weights alone. prepare() writes them, then
 *               they are read only. Instances of one op with equal init and weights share one copy.
 *   persistent  private to the instance, zeroed once, kept between calls: semaphores, state
 *   plan        output of plan() on the host. The host copies it to the device for forward(). */
#ifndef FK_MEMORY_H
#define FK_MEMORY_H
#include "abi.h"

/* Output of supports(): bytes of each class, 0 to 2^46, sufficient for the maximum frame and every
 * smaller frame. The host owns the struct and sets the four members to 0 before the call. The
 * plugin writes the four members alone. */
typedef struct fk_need {
  uint32_t struct_size, reserved; /* reserved is 0 */
  int64_t scratch, packed, persistent, plan;
} fk_need;
FK_ASSERT(offsetof(fk_need, scratch) == 8 && offsetof(fk_need, plan) == 32, "layout");

/* Input of prepare(). The struct is valid during the call, the memory until destroy(). Pointers are
 * device memory aligned to 256 bytes, or null if supports() asked for 0 bytes. */
typedef struct fk_memory {
  uint32_t struct_size;
  int32_t packed_ready;     /* 1: an equal instance has filled `packed`; do not write to it */
  void *packed;             /* content undefined unless packed_ready */
  int64_t packed_bytes;     /* fk_need.packed */
  void *persistent;         /* zeroed */
  int64_t persistent_bytes; /* fk_need.persistent */
  void *stream;             /* as in fk_ctx: prepare() enqueues here, or on streams of its own */
} fk_memory;
FK_ASSERT(offsetof(fk_memory, packed) == 8 && offsetof(fk_memory, stream) == 40, "layout");

/* Input of forward(). The struct is valid during the call. Scratch and plan are valid until the
 * work that the call enqueued has finished. */
typedef struct fk_ctx {
  uint32_t struct_size;
  int32_t device_id;     /* as in fk_host */
  void *stream;          /* of the device: cudaStream_t, cl_command_queue; null on the CPU */
  void *scratch;         /* device memory, aligned to 256 bytes, content undefined */
  int64_t scratch_bytes; /* fk_need.scratch or more */
  const void *plan;      /* device copy of plan()'s blob, read only, at a multiple of 16 bytes */
  int64_t plan_bytes;    /* *bytes from plan(); 0 without a plan() */
  fk_error *error;       /* for failures of forward(); the host owns it */
} fk_ctx;
FK_ASSERT(offsetof(fk_ctx, stream) == 8 && offsetof(fk_ctx, error) == 48, "layout");
#endif
