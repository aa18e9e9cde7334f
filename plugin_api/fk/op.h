/* SPDX-License-Identifier: Apache-2.0 */
/* One op of a plugin: its life as a table of functions. Authors do not write this table; the generated
 * header fk/ops/<op>.h (C) and fk/cpp/plugin.hpp (C++) make it from typed functions.
 *
 *   supports -> create -> prepare -> { [plan] -> forward }* -> destroy,  with reset after an aborted run
 *
 * init and weights frames, and all they point to, live until destroy(); forward and plan frames and what
 * they point to only during the call. A frame holds exactly the slots that the plugin was compiled with.
 * [control] = no call of this instance is in flight; [forward] = at most one caller per instance at a
 * time, the thread may change, other instances may run at the same time. Statuses are those of abi.h, with a
 * sentence in the error that is the last argument (ctx->error in forward); the host owns all that it passes,
 * and the plugin `self` and what create() took. */
#ifndef FK_OP_H
#define FK_OP_H
#include "host.h"

/* Whether forward() may be captured into a CUDA graph, as in vLLM. */
enum {
  FK_GRAPH_NEVER = 0,
  FK_GRAPH_UNIFORM_DECODE = 1, /* one token per request */
  FK_GRAPH_UNIFORM_BATCH = 2,  /* equally many tokens per request */
  FK_GRAPH_ALWAYS = 3
};
/* The type in which products are summed up. */
enum { FK_ACCUMULATE_F32 = 0, FK_ACCUMULATE_F64 = 1, FK_ACCUMULATE_REDUCED = 2 };

/* What an implementation says of itself. Tested, all but `accumulate`; a false claim fails the plugin. */
typedef struct fk_claims {
  uint32_t struct_size;
  int32_t device_type;     /* FK_CPU or FK_CUDA */
  int32_t graph;           /* FK_GRAPH_... */
  int32_t deterministic;   /* 1: equal inputs give equal bits, run to run */
  int32_t batch_invariant; /* 1: a row's bits do not depend on the other rows */
  int32_t accumulate;      /* FK_ACCUMULATE_... */
  int32_t side_streams;    /* streams used besides the given one, forked from it and joined */
  int32_t sm_count;        /* CUDA: number of entries of sm */
  const int32_t *sm;       /* CUDA: compute capabilities with code in the plugin, e.g. 90 */
} fk_claims;
FK_ASSERT(offsetof(fk_claims, sm) == 32, "layout");

typedef struct fk_op {
  uint32_t struct_size, reserved; /* reserved is 0 */
  const fk_contract *contract;    /* what the source was compiled against: constant data */
  const fk_claims *claims;        /* constant data */
  /* Does this provider take this case, and how much memory does it need? Pure: no device call, no
   * allocation, no state. `weights` and `max` (a forward frame at its limits) have null data pointers;
   * dtypes, strides and which optional fields are present are final, free axes only shrink. Returns FK_OK,
   * or FK_UNSUPPORTED with a sentence in `why`. [any thread] */
  int32_t (*supports)(const void *init, const void *weights, const void *max, fk_need *need,
                      fk_error *why);
  /* Makes an instance and gives its address in *self: cheap, no device memory. The host and both frames
   * may be kept until destroy(). When it fails there is no instance, and nobody calls destroy(). [control] */
  int32_t (*create)(const fk_host *, const void *init, const void *weights, void **self, fk_error *);
  /* The last place that may autotune, load kernels, repack weights or make handles; called once. `max` as
   * in supports(), for this call. Weights and memory are there when it begins, and the host waits for what
   * it has begun on any stream. When it fails, destroy() follows. [control] */
  int32_t (*prepare)(void *self, const void *max, const fk_memory *, fk_error *);
  /* Host-side scheduling, once per step and for all equal instances, outside graph capture; its time
   * counts. Reads host tensors and init (not weights), writes at most *bytes into blob (host memory) and
   * sets *bytes to what it wrote. Values are upper bounds: the tensors of forward() decide. The host copies
   * the blob to the device before forward(). An instance with children plans for itself alone. [on the host,
   * while no other call of this instance is made; work of an earlier forward() may be under way] */
  int32_t (*plan_or_null)(void *self, const void *plan, void *blob, int64_t *bytes, fk_error *);
  /* Enqueues on ctx->stream and returns. No allocation, no synchronisation, no global state; equal
   * arguments give equal launches. Errors go to ctx->error. [forward, ordered on stream] */
  int32_t (*forward)(void *self, const void *args, const fk_ctx *);
  /* Ends the instance and gives back all that it took; its memory (fk_memory) is the host's. [control] */
  void (*destroy)(void *self);
  /* Restores persistent state after an aborted run or a failed capture, so that the next call is as the
   * first one was; `self` and its memory stay. Null: nothing to restore. [control] */
  int32_t (*reset_or_null)(void *self, fk_error *);
} fk_op;
FK_ASSERT(offsetof(fk_op, supports) == 24 && offsetof(fk_op, reset_or_null) == 72, "layout");
#endif
