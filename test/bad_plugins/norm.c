/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm in float32 done right except for its optional fields, which BAD_... gets wrong. */
#include <math.h>
#include <stdlib.h>

#include "fk/ops/rms_norm.h"

static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL};
FK_RMS_NORM_OP(bad, &claims);
struct bad {
  const fk_rms_norm_init *init;
  const fk_rms_norm_weights *weights;
  float eps;
};
static int32_t bad_supports(const fk_rms_norm_init *init, const fk_rms_norm_weights *weights, const fk_rms_norm_forward *max,
                            fk_need *need, fk_error *why) {
  (void)init, (void)need;
  if (FK_DTYPE(max->x) != FK_F32 || (weights->weight.or_null && FK_DTYPE(weights->weight.or_null) != FK_F32) ||
      (max->residual.or_null && FK_DTYPE(max->residual.or_null) != FK_F32))
    return fk_refuse(why, "float32 only");
  return FK_OK;
}
static int32_t bad_create(const fk_host *host, const fk_rms_norm_init *init, const fk_rms_norm_weights *weights, bad **self,
                          fk_error *error) {
  (void)host, (void)error;
  *self = malloc(sizeof **self);
  (*self)->init = init;
  (*self)->weights = weights;
  (*self)->eps = (float)init->eps;
  return FK_OK;
}
static int32_t bad_prepare(bad *self, const fk_rms_norm_forward *max, const fk_memory *memory, fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
#ifdef BAD_WEIGHT_WRITE
  if (self->weights->weight.or_null) ((float *)self->weights->weight.or_null->data)[0] = 1;
#endif
  return FK_OK;
}
static int32_t bad_forward(bad *self, const fk_rms_norm_forward *args, const fk_ctx *ctx) {
  const int64_t width = self->init->hidden_size;
  const float *x = args->x->data, *weight = self->weights->weight.or_null ? self->weights->weight.or_null->data : NULL;
  float *out = args->out->data, *residual = args->residual.or_null ? args->residual.or_null->data : NULL;
  (void)ctx;
#ifdef BAD_OPTIONAL
  weight = self->weights->weight.or_null->data; /* as if it were always there */
#elif defined BAD_NO_WEIGHT
  weight = NULL;
#elif defined BAD_NO_RESIDUAL
  residual = NULL;
#endif
#ifdef BAD_EPSILON
  const float eps = 1e-6f;
#else
  const float eps = self->eps;
#endif
  for (int64_t t = 0; t < args->x->shape[0]; ++t) {
    float sum = 0;
    for (int64_t i = t * width; i < (t + 1) * width; ++i) {
      const float v = x[i] + (residual ? residual[i] : 0);
#ifndef BAD_RESIDUAL_KEPT
      if (residual) residual[i] = v;
#endif
      sum += v * v;
      out[i] = v;
    }
    const float scale = 1 / sqrtf(sum / (float)width + eps);
    for (int64_t i = 0; i < width; ++i) out[t * width + i] *= scale * (weight ? weight[i] : 1);
  }
  return FK_OK;
}
static void bad_destroy(bad *self) { free(self); }
FK_PLUGIN(BAD_NAME, "0");
