/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest real plugin: silu_and_mul in float32, in C, with nothing but the headers.
 *   cc -std=c11 -O2 -fPIC -fvisibility=hidden -shared -I <include> plugin.c -o mine.so \
 *      -Wl,--version-script=<include>/fk/plugin.map -Wl,-z,now -Wl,-z,defs -lm */
#include <math.h>
#include <stdlib.h>

#include "fk/ops/silu_and_mul.h"

static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL};

FK_SILU_AND_MUL_OP(activation, &claims); /* declares the six functions below */

struct activation {
  int64_t width;
};

/* Which cases does this plugin take? Shapes are at their maxima here and data pointers are null. */
static int32_t activation_supports(const fk_silu_and_mul_init *init, const fk_silu_and_mul_weights *weights,
                                   const fk_silu_and_mul_forward *max, fk_need *need, fk_error *why) {
  (void)init, (void)weights, (void)need;
  if (FK_DTYPE(max->x) != FK_F32) return fk_refuse(why, "x: float32 only");
  return FK_OK;
}

static int32_t activation_create(const fk_host *host, const fk_silu_and_mul_init *init,
                                 const fk_silu_and_mul_weights *weights, activation **self, fk_error *error) {
  (void)host, (void)weights;
  *self = malloc(sizeof **self);
  if (!*self) return fk_fail(error, FK_FAILED, "out of memory");
  (*self)->width = init->size;
  return FK_OK;
}

/* Autotuning, repacking of weights and the like would be done here. */
static int32_t activation_prepare(activation *self, const fk_silu_and_mul_forward *max, const fk_memory *memory,
                                  fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}

static int32_t activation_forward(activation *self, const fk_silu_and_mul_forward *args, const fk_ctx *ctx) {
  const int64_t tokens = args->x->shape[0], width = self->width;
  (void)ctx;
  for (int64_t t = 0; t < tokens; ++t) {
    const float *gate = (const float *)args->x->data + t * 2 * width, *up = gate + width;
    float *out = (float *)args->out->data + t * width;
    for (int64_t i = 0; i < width; ++i) out[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
  }
  return FK_OK;
}

static void activation_destroy(activation *self) { free(self); }

FK_PLUGIN("frozen_c", "1.0.0");
