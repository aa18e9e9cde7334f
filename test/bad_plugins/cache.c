/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_append done right except for where it writes, which BAD_... chooses. */
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
#ifdef BAD_DENSE_HEADS
  if (max->k->strides[1] != init->head_dim || max->v->strides[1] != init->head_dim) return fk_refuse(why, "heads must be adjacent");
#endif
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
#if defined BAD_STRIDES || defined BAD_DENSE_HEADS /* as if k and v were dense */
  const int64_t row = from->shape[1] * from->shape[2];
#else
  const int64_t row = from->strides[0];
#endif
#if defined BAD_INTERLEAVED /* as if pages followed each other, but for padding */
  const int64_t step = cache->shape[1] * cache->shape[2] * cache->shape[3];
#else
  const int64_t step = cache->strides[0];
#endif
  float *to = (float *)cache->data + slot / page * step + slot % page * cache->strides[1] + head * cache->strides[2];
  memcpy(to, (const float *)from->data + token * row + head * from->strides[1], (size_t)width * 4);
}
static int32_t bad_forward(bad *self, const fk_kv_cache_append_forward *args, const fk_ctx *ctx) {
  const int64_t *slots = args->slot_mapping->data;
  (void)ctx;
  for (int64_t t = 0; t < args->k->shape[0]; ++t) {
    if (slots[t] < 0) continue;
    for (int64_t h = 0; h < self->init->num_kv_heads; ++h) {
      put(args->k_cache, args->k, t, slots[t], self->init->page_size, h, self->init->head_dim);
      put(args->v_cache, args->v, t, slots[t], self->init->page_size, h, self->init->head_dim);
#ifdef BAD_FOOTPRINT
      put(args->v_cache, args->v, t, 0, self->init->page_size, h, self->init->head_dim);
#endif
    }
  }
#ifdef BAD_GAP
  const int64_t page = args->k_cache->shape[1] * args->k_cache->shape[2] * args->k_cache->shape[3];
  if (args->k_cache->strides[0] > page) ((float *)args->k_cache->data)[page] = 0;
#endif
  return FK_OK;
}
static void bad_destroy(bad *self) { free(self); }
FK_PLUGIN(BAD_NAME, "0");
