/* SPDX-License-Identifier: Apache-2.0 */
/* One op of a plugin: a table of functions. Authors write typed functions, and a header makes the
 * table: the generated fk/ops/<op>.h for C, fk/cpp/plugin.hpp for C++.
 *
 *   supports -> create -> prepare -> { [plan] -> forward }* -> destroy,  with reset after an aborted run
 *
 * Frames: an array of slots (fk_slot), exactly the slots of the header that the plugin was compiled
 * with. The frames of init and weights, and all they point to, live until destroy(). The frames of
 * forward and plan, and all they point to, live during the call.
 *
 * Threads, in brackets after each function:
 *   [control]  no other call of this instance is in flight
 *   [forward]  one call per instance at a time, on any thread, which may change from call to call.
 *              Other instances may run at the same time.
 *
 * Functions return a status of abi.h. A failure has its sentence in the error, which is the last
 * argument (in forward(): ctx->error). The host owns all arguments. The plugin owns `self` and all
 * resources that create() acquired. */
#ifndef FK_OP_H
#define FK_OP_H
#include "host.h"

/* Batches for which forward() may be captured into a CUDA graph. The levels are vLLM's. */
enum {
  FK_GRAPH_NEVER = 0,
  FK_GRAPH_UNIFORM_DECODE = 1, /* one token per request */
  FK_GRAPH_UNIFORM_BATCH = 2,  /* all requests have the same number of tokens */
  FK_GRAPH_ALWAYS = 3
};
/* The type in which an op sums products. */
enum { FK_ACCUMULATE_F32 = 0, FK_ACCUMULATE_F64 = 1, FK_ACCUMULATE_REDUCED = 2 };

/* Properties that an implementation claims. The host tests all but `accumulate`. A false claim
 * fails the plugin. */
typedef struct fk_claims {
  uint32_t struct_size;
  int32_t device_type;     /* FK_CPU, FK_CUDA, FK_OPENCL (opencl.h) or another kind of DLPack */
  int32_t graph;           /* FK_GRAPH_... */
  int32_t deterministic;   /* 1: equal inputs give equal bits, run to run */
  int32_t batch_invariant; /* 1: bits of a row or request are independent of the rest */
  int32_t accumulate;      /* FK_ACCUMULATE_... */
  int32_t side_streams;    /* other streams in use, forked from ctx->stream and joined */
  int32_t sm_count;        /* CUDA: entries of sm */
  const int32_t *sm;       /* CUDA: compute capabilities with code in the plugin, such as 90 */
} fk_claims;
FK_ASSERT(offsetof(fk_claims, sm) == 32, "layout");

typedef struct fk_op {
  uint32_t struct_size, reserved; /* reserved is 0 */
  const fk_contract *contract;    /* identity of the op's header at compile time; constant data */
  const fk_claims *claims;        /* constant data */
  /* Decides if this provider takes the case, and states its memory in `need`. Makes no device call
   * and no allocation, and keeps no state. `max` is a forward frame with every free axis at its
   * maximum. Views in `weights` and `max` have null data. Later frames have the same dtypes,
   * strides and optional fields, and no larger axes. FK_OK, or FK_UNSUPPORTED with a sentence in
   * `why`. [any thread] */
  int32_t (*supports)(const void *init, const void *weights, const void *max, fk_need *need,
                      fk_error *why);
  /* Makes an instance and stores its address in *self. Must be cheap and allocate no device memory.
   * The instance may keep the pointers to host, init and weights until destroy(). After a failure
   * there is no instance, and the host does not call destroy(). [control] */
  int32_t (*create)(const fk_host *, const void *init, const void *weights, void **self, fk_error *);
  /* Prepares the instance, once. Autotuning, loading of kernels, repacking of weights and the
   * making of handles belong here at the latest. `max` is as in supports() and valid during the
   * call. Weights and memory have their content. Work goes on memory->stream, or on streams of the
   * plugin's own, and never on a default stream. The host waits afterwards for all of them. After a failure the host calls destroy(). [control] */
  int32_t (*prepare)(void *self, const void *max, const fk_memory *, fk_error *);
  /* Schedules on the host for all equal instances, once per step and outside of graph capture. Its
   * time is part of the measured time. Reads the host tensors of `plan` and init, not weights.
   * Writes at most *bytes to `blob`, host memory at a multiple of 16 bytes, and sets *bytes to the
   * number written. The device gets a copy before forward(). Values of `plan` are upper bounds; the
   * tensors of forward() are exact. Equal instances with children do not share a plan. [no other
   * call of this instance runs; the device may still run an earlier forward()] */
  int32_t (*plan_or_null)(void *self, const void *plan, void *blob, int64_t *bytes, fk_error *);
  /* Enqueues the op on ctx->stream and returns. Makes no allocation, does not synchronise and
   * changes no global state. Equal arguments give equal launches. [forward, ordered on
   * ctx->stream] */
  int32_t (*forward)(void *self, const void *args, const fk_ctx *);
  /* Ends the instance and releases its resources. The host frees fk_memory. [control] */
  void (*destroy)(void *self);
  /* Restores persistent state after an aborted run or a failed capture: the next call behaves as
   * the first call did. `self` and its memory stay. Null: no state to restore. [control] */
  int32_t (*reset_or_null)(void *self, fk_error *);
} fk_op;
FK_ASSERT(offsetof(fk_op, supports) == 24 && offsetof(fk_op, reset_or_null) == 72, "layout");
#endif
