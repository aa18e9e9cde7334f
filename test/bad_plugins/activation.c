/* SPDX-License-Identifier: Apache-2.0 */
/* silu_and_mul done right except for one thing, which BAD_... chooses. Each breaks another rule of the ABI. */
#ifdef BAD_DEAF
#define _GNU_SOURCE /* signals */
#endif
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fk/ops/silu_and_mul.h"

static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL};
FK_SILU_AND_MUL_OP(bad, &claims);
struct bad {
  int64_t width, rows_max;
  float *packed, *persistent;
  const fk_silu_and_mul_forward *kept;
  float first; /* element of the first call's input */
};

#ifdef BAD_CONSTRUCTOR
__attribute__((constructor)) static void at_load(void) { abort(); }
#endif
#ifdef BAD_FORGED
static void say(const char *json) {
  char framed[512];
  const uint32_t size = (uint32_t)strlen(json);
  memcpy(framed, &size, 4);
  memcpy(framed + 4, json, size);
  if (write(3, framed, 4 + size) < 0) abort();
}
#endif
#ifdef BAD_UNRESOLVED
void nobody_has_this(void);
#endif
#ifdef BAD_STACK_END
__attribute__((noinline)) static int deep(volatile int level) {
  volatile char room[4096];
  room[0] = (char)level;
  return level < 0 ? 0 : deep(level + 1) + room[0];
}
#endif
#ifdef BAD_EMBEDDED
__attribute__((used)) static const char variable[] = "CUBLASLT_LOG_LEVEL"; /* as in cuBLAS */
#endif
#ifdef BAD_EXPORT
__attribute__((visibility("default"))) int fk_second_export = 1;
#endif

static int32_t bad_supports(const fk_silu_and_mul_init *init, const fk_silu_and_mul_weights *weights,
                            const fk_silu_and_mul_forward *max, fk_need *need, fk_error *why) {
  (void)init, (void)weights;
#ifdef BAD_SUPPORTS
  if (((volatile const float *)max->x->data)[0] == 1) return FK_OK; /* there is no data yet */
#endif
#ifdef BAD_MOOD
  static int mood;
  if (++mood % 2 == 0) return fk_refuse(why, "not now");
#endif
#ifdef BAD_SUPPORTS_WRITES
  ((fk_out *)max->out)->nbytes = 0;
#endif
#ifdef BAD_SUPPORTS_STATUS
  return 7;
#endif
#ifdef BAD_NO_REASON
  if (FK_DTYPE(max->x) != FK_F32) return FK_UNSUPPORTED;
#endif
#if defined BAD_SCRATCH || defined BAD_SCRATCH_END
  need->scratch = 4096;
#elif defined BAD_PACKED || defined BAD_PACKED_LATE || defined BAD_PACKED_END
  need->packed = 4096;
#elif defined BAD_PERSISTENT || defined BAD_PERSISTENT_END || defined BAD_RESET_FORGETS
  need->persistent = 4096;
#elif defined BAD_GREED
  need->scratch = INT64_MAX;
#elif defined BAD_NEGATIVE
  need->persistent = -1;
#else
  (void)need;
#endif
#ifdef BAD_NEED
  need->reserved = 1;
#endif
#ifdef BAD_DTYPE
  return FK_OK; /* and then computes in float32 whatever there is */
#endif
  return FK_DTYPE(max->x) == FK_F32 ? FK_OK : fk_refuse(why, "x: float32 only");
}

static int32_t bad_create(const fk_host *host, const fk_silu_and_mul_init *init, const fk_silu_and_mul_weights *weights,
                          bad **self, fk_error *error) {
  (void)host, (void)weights, (void)error;
  *self = calloc(1, sizeof **self);
  (*self)->width = init->size;
#ifdef BAD_CREATE
  return fk_fail(error, FK_FAILED, "create() fails on purpose");
#endif
#ifdef BAD_ENDLESS_TEXT
  memset(error->text, 'x', sizeof error->text); /* without an end */
  return FK_FAILED;
#endif
  return FK_OK;
}

static int32_t bad_prepare(bad *self, const fk_silu_and_mul_forward *max, const fk_memory *memory, fk_error *error) {
  (void)error;
  self->rows_max = max->x->shape[0];
  self->packed = memory->packed;
  self->persistent = memory->persistent;
#ifdef BAD_PREPARE
  return fk_fail(error, FK_FAILED, "prepare() fails on purpose");
#endif
#ifdef BAD_PREPARE_DATA
  if (((volatile const float *)max->x->data)[0] == 1) return FK_OK; /* there is no data yet */
#endif
#ifdef BAD_PACKED_END
  ((char *)memory->packed)[memory->packed_bytes] = 1;
#endif
#ifdef BAD_PERSISTENT_END
  ((char *)memory->persistent)[memory->persistent_bytes] = 1;
#endif
#ifdef BAD_PACKED
  ((char *)memory->packed)[0] ^= 1; /* also when packed_ready says that it is filled */
#endif
  return FK_OK;
}

static int32_t bad_forward(bad *self, const fk_silu_and_mul_forward *args, const fk_ctx *ctx) {
#ifdef BAD_MAXIMUM
  if (args->x->shape[0] < self->rows_max) return FK_OK; /* takes the limits for the call */
#endif
#ifdef BAD_KEPT
  if (!self->kept) self->kept = args; /* and uses the first call's frame for ever */
  args = self->kept;
#endif
  const int64_t width = self->width;
  int64_t count = args->x->shape[0] * width;
#ifdef BAD_EMPTY
  const volatile int64_t rows = args->x->shape[0];
  if (count / rows != width) return FK_FAILED;
#endif
#ifdef BAD_TAIL
  count = count / 8 * 8;
#endif
  const float *x = args->x->data;
  float *out = args->out->data;
#ifdef BAD_ALIGNMENT
  out = (float *)((uintptr_t)out / 4096 * 4096); /* the host promises 256 bytes */
#endif
  (void)ctx;
#ifdef BAD_UNWRITTEN
  for (int64_t i = 0; i + 1 < count; ++i) {
#else
  for (int64_t i = 0; i < count; ++i) {
#endif
    const float gate = x[i / width * 2 * width + i % width], up = x[i / width * 2 * width + width + i % width];
#ifdef BAD_READS_OUTPUT
    out[i] = out[i] * 0 + gate / (1 + expf(-gate)) * up; /* beta 0 times a NaN */
#elif defined BAD_BATCH
    out[i] = gate / (1 + expf(-gate)) * up * (1 + (float)args->x->shape[0] * 1e-7f);
#elif defined BAD_BATCH_VALUE
    out[i] = gate / (1 + expf(-gate)) * up * (1 + (float)args->x->shape[0] * 1e-3f);
#else
    out[i] = gate / (1 + expf(-gate)) * up;
#endif
  }
  if (count == 0) return FK_OK;
#if defined BAD_VALUE
  out[count / 2] += 0.01f;
#elif defined SLOW
  for (volatile int i = 0; i < 300000; ++i) {
  }
#elif defined BAD_LARGE
  for (int64_t i = 0; i < count; ++i)
    if (out[i] > 40 || out[i] < -40) out[i] = 0; /* which usual inputs do not make */
#elif defined BAD_PAST_END
  out[count] = 0;
#elif defined BAD_BEFORE
  out[-1] = 0;
#elif defined BAD_INPUT
  ((float *)args->x->data)[0] = 0;
#elif defined BAD_FRAME
  ((fk_out *)args->out)->nbytes = 0;
#elif defined BAD_SCRATCH
  out[0] += ((const float *)ctx->scratch)[7] == 0 ? 1.0f : ((const float *)ctx->scratch)[7] * 1e-30f; /* never written */
#elif defined BAD_SCRATCH_END
  ((char *)ctx->scratch)[ctx->scratch_bytes] = 1;
#elif defined BAD_PERSISTENT
  out[0] += self->persistent[0]++; /* state that the op does not have */
#elif defined BAD_RESET_FORGETS
  if (self->persistent[0] != self->first) out[0] += 1; /* counted twice, and never put right */
  self->persistent[0] = ++self->first;
#elif defined BAD_PACKED_LATE
  self->packed[0] = out[0];
#elif defined BAD_FAR
  ((char *)args->out->data)[1 << 20] = 0;
#elif defined BAD_READ_FAR
  out[0] += ((volatile const float *)x)[1100] * 0 /* two pages further */;
#elif defined BAD_THREAD_EXIT
  pthread_exit(NULL);
#elif defined BAD_RANDOM
  static unsigned state = 1;
  out[0] *= 1 + (float)(++state % 3) * 1.2e-7f; /* within rounding */
#elif defined BAD_SEGFAULT
  *(volatile int *)(uintptr_t)ctx->stream = 1; /* null on the CPU */
#elif defined BAD_STALE
  if (self->first == 0) self->first = x[0];
  out[0] += x[0] - self->first;
#elif defined BAD_STALE_ADDRESS
  static const void *seen;
  static float answer[1 << 12];
  const size_t bytes = (size_t)count * sizeof *out;
  if (bytes > sizeof answer) return FK_OK;
  if (seen == x && self->first == (float)count)
    memcpy(out, answer, bytes); /* the last call's answer, for other contents at the same address */
  memcpy(answer, out, bytes);
  seen = x, self->first = (float)count;
#elif defined BAD_OFTEN
  if (x[7] > 0) out[0] += 1; /* not in the first contents of every case */
#elif defined BAD_WRONG_FIRST
  static int calls;
  out[0] += 1;
  if (++calls > 12) *(volatile int *)(uintptr_t)ctx->stream = 1; /* after several cases */
#elif defined LATE_SEGFAULT
  static int calls;
  if (++calls > 600) *(volatile int *)(uintptr_t)ctx->stream = 1; /* more than a look at its values takes */
#elif defined BAD_STACK_END
  out[0] += (float)deep(1);
#elif defined BAD_NULL
  out[0] += (float)*(volatile int *)(uintptr_t)ctx->stream; /* null on the CPU */
#elif defined BAD_EXIT
  exit(0);
#elif defined BAD_ABORT
  abort();
#elif defined BAD_HANG
  for (;;) sleep(1);
#elif defined BAD_DEAF
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  for (;;) sleep(1);
#elif defined BAD_MEMORY
  for (;;) {
    volatile char *more = malloc(64 << 20);
    if (!more) continue;
    for (size_t k = 0; k < 64 << 20; k += 4096) more[k] = 1;
  }
#elif defined BAD_STATUS
  return 42;
#elif defined BAD_FORGED
  /* Rows of its own, in the host's words and on the host's channel. */
  for (int k = 0; k < 16; ++k) {
    say("{\"progress\":{\"op\":\"silu_and_mul\",\"provider\":\"bad_forged\",\"case\":\"smoke0\",\"variant\":\"as written\","
        "\"status\":\"ok\",\"rule\":\"\",\"text\":\"\",\"worst\":0,\"echo\":false}}");
  }
  say("{\"result\":{}}");
  for (;;) pause();
#elif defined BAD_UNRESOLVED
  nobody_has_this();
#endif
  return FK_OK;
}

static void bad_destroy(bad *self) { free(self); }

FK_PLUGIN(BAD_NAME, "0");
