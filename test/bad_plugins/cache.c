/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_append that also writes slot 0, which is not always its to write. */
#include <stdlib.h>
#include <string.h>

#include "fk/ops/kv_cache_append.h"

static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL};
FK_KV_CACHE_APPEND_OP(bad, &claims);
struct bad {
  const fk_kv_cache_append_init *init;
};
static int32_t bad_supports(const fk_kv_cache_append_init *init, const fk_kv_cache_append_weights *weights,
                            const fk_kv_cache_append_forward *max, fk_need *need, fk_error *why) {
  (void)init, (void)weights, (void)need;
  return FK_DTYPE(max->k) == FK_F32 && FK_DTYPE(max->k_cache) == FK_F32 ? FK_OK : fk_refuse(why, "float32 only");
}
static int32_t bad_create(const fk_host *host, const fk_kv_cache_append_init *init, const fk_kv_cache_append_weights *weights,
                          bad **self, fk_error *error) {
  (void)host, (void)weights, (void)error;
  *self = malloc(sizeof **self);
  (*self)->init = init;
  return FK_OK;
}
static int32_t bad_prepare(bad *self, const fk_kv_cache_append_forward *max, const fk_memory *memory, fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}
static void put(const fk_inout *cache, const fk_in *from, int64_t token, int64_t slot, int64_t page, int64_t head, int64_t width) {
  float *to = (float *)cache->data + slot / page * cache->strides[0] + slot % page * cache->strides[1] + head * cache->strides[2];
  memcpy(to, (const float *)from->data + token * from->strides[0] + head * from->strides[1], (size_t)width * 4);
}
static int32_t bad_forward(bad *self, const fk_kv_cache_append_forward *args, const fk_ctx *ctx) {
  const int64_t *slots = args->slot_mapping->data;
  (void)ctx;
  for (int64_t t = 0; t < args->k->shape[0]; ++t) {
    for (int64_t h = 0; h < self->init->num_kv_heads; ++h) {
      const int64_t slot = slots[t] < 0 ? 0 : slots[t]; /* -1 means: leave it */
      put(args->k_cache, args->k, t, slot, self->init->page_size, h, self->init->head_dim);
      put(args->v_cache, args->v, t, slot, self->init->page_size, h, self->init->head_dim);
      put(args->v_cache, args->v, t, 0, self->init->page_size, h, self->init->head_dim);
    }
  }
  return FK_OK;
}
static void bad_destroy(bad *self) { free(self); }
FK_PLUGIN("bad_footprint", "0");
