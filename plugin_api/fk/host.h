/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the host for a plugin. The table is valid until the process ends.
 *
 * Children: an op above level 1 may ask the host to run ops of lower levels. The run chooses the
 * child's provider. The host owns the child's memory and converts the caller's frames to the slots
 * of the child's plugin. It destroys the children of an instance after the instance. */
#ifndef FK_HOST_H
#define FK_HOST_H
#include "contract.h"
#include "memory.h"

enum { FK_LOG_DEBUG = 0, FK_LOG_INFO = 1, FK_LOG_WARNING = 2, FK_LOG_ERROR = 3 };

typedef struct fk_child fk_child;
typedef struct fk_host fk_host;
struct fk_host {
  uint32_t struct_size, minor;    /* minor: FK_ABI_MINOR of the host */
  void *self;                     /* private to the host */
  int32_t device_type, device_id; /* the instance's device: its kind (tensor.h), and its number */
  int32_t cpu_threads;            /* most CPU threads that an op may use, its caller's included */
  int32_t reserved;               /* 0 */
  /* Logs one line; the host may hide it. A plugin prints in no other way. `text` is
   * zero-terminated, and the host copies it. severity is FK_LOG_... [any thread] */
  void (*log)(const fk_host *, int32_t severity, const char *text);
  /* Makes a child of op `contract->op`: runs supports(), create() and prepare() of its provider.
   *
   * Frames have the layout of the op's header at the caller's compile time. The caller keeps init
   * and weights, and all they point to, valid until its own destroy(). `max` is read during the
   * call alone; its views have null data. The host owns *child. The caller may use it until the
   * caller's destroy() returns.
   *
   * A failure has its reason in `error`:
   *   FK_UNSUPPORTED  The host does not know the contract, or no provider takes the case. Or the
   *                   op's level is not below the caller's. Or another function made the call.
   *   FK_FAILED       create() or prepare() of the child failed.
   * [control: the thread that runs create() or prepare()] */
  int32_t (*child)(const fk_host *, const fk_contract *contract, const void *init, const void *weights,
                   const void *max, fk_child **child, fk_error *error);
  /* Runs the child's plan(). Call it in the caller's plan(). `plan` is the child's plan frame, read
   * during the call alone; its tensors are in host memory. The host keeps the child's blob and
   * copies it to the device. Returns the status of the child's plan(), with its text in `error`.
   * FK_OK without an effect if the child has no plan(). [the thread that runs plan()] */
  int32_t (*child_plan)(fk_child *, const void *plan, fk_error *error);
  /* Runs the child's forward(), which enqueues on parent->stream. Call it in the caller's
   * forward(), with that call's ctx as `parent`. `forward` is the child's frame, read during the
   * call alone. Scratch of the child is the host's and does not overlap the parent's. Returns the
   * child's status, with its text in parent->error. [forward, ordered on parent->stream] */
  int32_t (*child_forward)(fk_child *, const void *forward, const fk_ctx *parent);
};
FK_ASSERT(offsetof(fk_host, self) == 8 && offsetof(fk_host, log) == 32, "layout");
FK_ASSERT(offsetof(fk_host, child_forward) == 56, "layout");
#endif
