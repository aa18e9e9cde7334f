/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor's plugin for the vendor's own op. */
#include <stdlib.h>

#include "fk/ops/vendor_square.h"

static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL};

FK_VENDOR_SQUARE_OP(activation, &claims); /* declares the six functions below */

struct activation {
  int64_t width;
};

/* Which cases does this plugin take? Shapes are at their maxima here and data pointers are null. */
static int32_t activation_supports(const fk_vendor_square_init *init, const fk_vendor_square_weights *weights,
                                   const fk_vendor_square_forward *max, fk_need *need, fk_error *why) {
  (void)init, (void)weights, (void)need;
  if (FK_DTYPE(max->x) != FK_F32) return fk_refuse(why, "x: float32 only");
  return FK_OK;
}

static int32_t activation_create(const fk_host *host, const fk_vendor_square_init *init,
                                 const fk_vendor_square_weights *weights, activation **self, fk_error *error) {
  (void)host, (void)weights;
  *self = malloc(sizeof **self);
  if (!*self) return fk_fail(error, FK_FAILED, "out of memory");
  (*self)->width = init->size;
  return FK_OK;
}

/* Autotuning, repacking of weights and the like would be done here. */
static int32_t activation_prepare(activation *self, const fk_vendor_square_forward *max, const fk_memory *memory,
                                  fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}

static int32_t activation_forward(activation *self, const fk_vendor_square_forward *args, const fk_ctx *ctx) {
  const int64_t tokens = args->x->shape[0], width = self->width;
  (void)ctx;
  for (int64_t i = 0; i < tokens * width; ++i) {
    const float x = ((const float *)args->x->data)[i];
    ((float *)args->out->data)[i] = x * x;
  }
  return FK_OK;
}

static void activation_destroy(activation *self) { free(self); }

FK_PLUGIN("vendor", "0.1.0");
