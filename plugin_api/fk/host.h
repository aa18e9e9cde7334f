/* SPDX-License-Identifier: Apache-2.0 */
/* Services that the host lends to a plugin. The table lives until the process ends.
 *
 * Children: an L2 or L3 op may have the host run lower ops, with whichever provider the run has chosen for
 * them. The host owns the child's memory, adapts the caller's frames to what the child's plugin was
 * compiled against, and destroys the children of an instance after the instance itself. */
#ifndef FK_HOST_H
#define FK_HOST_H
#include "contract.h"
#include "memory.h"

enum { FK_LOG_DEBUG = 0, FK_LOG_INFO = 1, FK_LOG_WARNING = 2, FK_LOG_ERROR = 3 };

typedef struct fk_child fk_child;
typedef struct fk_host fk_host;
struct fk_host {
  uint32_t struct_size, minor;    /* of the ABI that the host was built with */
  void *self;                     /* the host's */
  int32_t device_type, device_id; /* where the instance runs: FK_CPU or FK_CUDA, and its number */
  int32_t cpu_threads;            /* how many threads an op may use on the CPU, its caller's included */
  int32_t reserved;
  /* Says one line to whoever runs the host, who may not show it. Nothing else may print. `text` is
   * zero-terminated and copied; severity is FK_LOG_... [any thread] */
  void (*log)(const fk_host *, int32_t severity, const char *text);
  /* supports + create + prepare of `contract->op`. Call it in create() or prepare(), with frames as in the
   * header that the caller was compiled with; init and weights (and all they point to) stay valid until
   * the caller's destroy(), `max` only during the call. Views in `max` have null data. *child is the host's,
   * for use until the caller's destroy() has returned. FK_UNSUPPORTED when the host has no such contract, no
   * provider that takes the case, the op is not of a lower level than the caller's, or it is called
   * elsewhere; FK_FAILED when the child's create() or prepare() fails; `error` says why. [control: the
   * thread that create() or prepare() was called on] */
  int32_t (*child)(const fk_host *, const fk_contract *contract, const void *init, const void *weights,
                   const void *max, fk_child **child, fk_error *error);
  /* The child's plan section, from the caller's plan(); `plan` is valid during the call, its tensors are
   * host memory. The host keeps the child's blob and copies it to the device. Does nothing, and returns
   * FK_OK, for a child without one; else the status of the child's plan(), with its words in `error`. [from
   * plan(), on its thread] */
  int32_t (*child_plan)(fk_child *, const void *plan, fk_error *error);
  /* The child's forward, on the parent's stream, from the caller's forward(): enqueues and returns its
   * status, with its words in parent->error. `forward` is valid during the call. Scratch of the child is the
   * host's and apart from the parent's. [forward, ordered on parent->stream] */
  int32_t (*child_forward)(fk_child *, const void *forward, const fk_ctx *parent);
};
FK_ASSERT(offsetof(fk_host, self) == 8 && offsetof(fk_host, log) == 32, "layout");
FK_ASSERT(offsetof(fk_host, child_forward) == 56, "layout");
#endif
