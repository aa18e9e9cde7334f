/* SPDX-License-Identifier: Apache-2.0 */
/* honest: C11 and nothing but the headers, float32 only */
#include <math.h>
#include <stdlib.h>

#include "fk/ops/silu_and_mul.h"

static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL};
FK_SILU_AND_MUL_OP(plain, &claims);
struct plain {
  int64_t width;
};
static int32_t plain_supports(const fk_silu_and_mul_init *init, const fk_silu_and_mul_weights *weights, const fk_silu_and_mul_forward *max,
                              fk_need *need, fk_error *why) {
  (void)init, (void)weights, (void)need;
  return FK_DTYPE(max->x) == FK_F32 ? FK_OK : fk_refuse(why, "x: float32 only");
}
static int32_t plain_create(const fk_host *host, const fk_silu_and_mul_init *init, const fk_silu_and_mul_weights *weights, plain **self,
                            fk_error *error) {
  (void)host, (void)weights;
  *self = malloc(sizeof **self);
  if (!*self) return fk_fail(error, FK_FAILED, "out of memory");
  (*self)->width = init->size;
  return FK_OK;
}
static int32_t plain_prepare(plain *self, const fk_silu_and_mul_forward *max, const fk_memory *memory, fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}
static int32_t plain_forward(plain *self, const fk_silu_and_mul_forward *args, const fk_ctx *ctx) {
  const int64_t width = self->width;
  (void)ctx;
  for (int64_t t = 0; t < args->x->shape[0]; ++t) {
    const float *gate = (const float *)args->x->data + t * 2 * width;
    float *out = (float *)args->out->data + t * width;
    for (int64_t i = 0; i < width; ++i) out[i] = gate[i] / (1 + expf(-gate[i])) * gate[width + i];
  }
  return FK_OK;
}
static void plain_destroy(plain *self) { free(self); }
FK_PLUGIN("c_plain", "0");
