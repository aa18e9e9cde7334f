/* SPDX-License-Identifier: Apache-2.0 */
/* silu_and_mul with the right values, but BAD_... chooses what it leaves behind, keeps, or takes for granted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fk/ops/silu_and_mul.h"

static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL};
FK_SILU_AND_MUL_OP(bad, &claims);
struct bad {
  int64_t width;
  int done;
};

static int32_t bad_supports(const fk_silu_and_mul_init *init, const fk_silu_and_mul_weights *weights,
                            const fk_silu_and_mul_forward *max, fk_need *need, fk_error *why) {
  (void)init, (void)weights, (void)need;
#ifdef BAD_ROUNDS_EARLY
  fesetround(FE_UPWARD);
#endif
  return FK_DTYPE(max->x) == FK_F32 ? FK_OK : fk_refuse(why, "x: float32 only");
}

#if defined BAD_GLOBAL
static int64_t shared_width; /* of the instance that was made last */
#elif defined BAD_THREAD_LOCAL
static _Thread_local int64_t my_width; /* of the thread that made the instance */
#elif defined BAD_STATIC
static float row[1 << 16]; /* of all instances */
#elif defined BAD_LEAK || defined BAD_LEAK_CALL || defined BAD_LEAK_TAIL
static void *volatile lost;
#endif

static int32_t bad_create(const fk_host *host, const fk_silu_and_mul_init *init, const fk_silu_and_mul_weights *weights,
                          bad **self, fk_error *error) {
  (void)host, (void)weights, (void)error;
  *self = calloc(1, sizeof **self);
  (*self)->width = init->size;
#if defined BAD_GLOBAL
  shared_width = init->size;
#elif defined BAD_THREAD_LOCAL
  my_width = init->size;
#elif defined BAD_LEAK
  lost = malloc(1 << 14);
#endif
  return FK_OK;
}
static int32_t bad_prepare(bad *self, const fk_silu_and_mul_forward *max, const fk_memory *memory, fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}

#if defined BAD_BUSY
static void *work(void *none) {
  for (volatile long i = 0;; ++i) continue;
  return none;
}
#elif defined BAD_THREADS
static void *rest(void *none) {
  for (;;) pause();
  return none;
}
#elif defined BAD_HANDLER
static void ignore(int number) { (void)number; }
#endif

/* Once per instance, or in every call. */
static void misbehave(bad *self) {
#if defined BAD_LEAK_CALL || defined BAD_LEAK_TAIL
  lost = malloc(4096);
#endif
#if defined BAD_SLOW
  usleep(20000);
#endif
  if (self->done++) return;
#if defined BAD_ROUNDING
  fesetround(FE_UPWARD);
#elif defined BAD_FLUSH && defined __x86_64__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined BAD_FLUSH
  fesetround(FE_UPWARD);
#elif defined BAD_HANDLER
  signal(SIGUSR1, ignore);
#elif defined BAD_MASK
  sigset_t set;
  sigfillset(&set);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
#elif defined BAD_TIMER
  const struct itimerval timer = {{3600, 0}, {3600, 0}};
  setitimer(ITIMER_REAL, &timer, NULL);
#elif defined BAD_VARIABLE
  setenv("OMP_NUM_THREADS", "1", 1);
#elif defined BAD_DIRECTORY
  if (chdir("/")) abort();
#elif defined BAD_DESCRIPTOR
  if (open("/dev/null", O_RDONLY) < 0) abort();
#elif defined BAD_CLOSED
  close(dup2(2, 0));
#elif defined BAD_FILE
  if (open("fk_bad_file", O_WRONLY | O_CREAT, 0600) < 0) abort();
#elif defined BAD_NETWORK
  if (socket(AF_INET, SOCK_STREAM, 0) < 0) abort();
#elif defined BAD_PROCESS
  if (fork() == 0) _exit(0);
#elif defined BAD_THREADS
  for (pthread_t thread; pthread_create(&thread, NULL, rest, NULL) == 0;) continue;
  abort(); /* as std::thread does where nobody catches it */
#elif defined BAD_BUSY
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_detach(thread);
#endif
}

static int32_t bad_forward(bad *self, const fk_silu_and_mul_forward *args, const fk_ctx *ctx) {
#if defined BAD_GLOBAL
  const int64_t width = shared_width;
#elif defined BAD_THREAD_LOCAL
  const int64_t width = my_width;
#else
  const int64_t width = self->width;
#endif
  const int64_t tokens = args->x->shape[0];
  (void)ctx;
  for (int64_t t = 0; t < tokens; ++t) {
    const float *gate = (const float *)args->x->data + t * 2 * width, *up = gate + width;
    float *out = (float *)args->out->data + t * width;
#ifdef BAD_STATIC
    for (int64_t i = 0; i < width; ++i) row[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
    usleep(100);
    for (int64_t i = 0; i < width; ++i) out[i] = row[i], row[i] = 0;
#else
    for (int64_t i = 0; i < width; ++i) out[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
#endif
#ifdef BAD_LEAK_TAIL
    for (int64_t i = width / 8 * 8; i < width; ++i) out[i] = 0; /* wrong where there is one */
#endif
  }
  misbehave(self);
  return FK_OK;
}

static void bad_destroy(bad *self) {
#ifdef BAD_TWICE
  bad *volatile same = self;
  free(same);
#endif
  free(self);
}

FK_PLUGIN(BAD_NAME, "0");
