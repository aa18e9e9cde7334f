// SPDX-License-Identifier: Apache-2.0
// kv_cache_append, kv_cache_move, mla_cache_append: one thread per written element.
#include "common.cuh"
#include "fk/ops/kv_cache_append.h"
#include "fk/ops/kv_cache_move.h"
#include "fk/ops/mla_cache_append.h"

namespace {
using namespace fkr;

struct KvCacheAppend : Plain<fk::kv_cache_append> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref k = ref(a.k), v = ref(a.v), k_cache = ref(a.k_cache), v_cache = ref(a.v_cache);
    const auto* slots = fk::data<int64_t>(a.slot_mapping);
    const int64_t heads = init.num_kv_heads, width = init.head_dim, page = init.page_size;
    for_each(a.k->shape[0] * heads * width, ctx, [=] __device__(int64_t i) {
      const int64_t d = i % width, head = i / width % heads, t = i / width / heads, slot = slots[t];
      if (slot < 0) return;
      const auto in = [&](const Ref& r) { return load(r, t * r.stride[0] + head * r.stride[1] + d); };
      const auto at = [&](const Ref& r) { return slot / page * r.stride[0] + slot % page * r.stride[1] + head * r.stride[2] + d; };
      store(k_cache, at(k_cache), in(k));
      store(v_cache, at(v_cache), in(v));
    });
  }
};
// All elements are read before any is written, as a slot may be both source and target.
struct KvCacheMove : Plain<fk::kv_cache_move> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.to_slots->shape[0] * init.num_kv_heads * init.head_dim * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const auto *from = fk::data<int64_t>(a.from_slots), *to = fk::data<int64_t>(a.to_slots);
    const int64_t heads = init.num_kv_heads, width = init.head_dim, page = init.page_size;
    const int64_t count = a.to_slots->shape[0] * heads * width;
    auto* moved = static_cast<double*>(ctx.scratch);
    for (const fk_inout* view : {a.k_cache, a.v_cache}) {
      const Ref cache = ref(view);
      for_each(count, ctx, [=] __device__(int64_t i) {
        const int64_t d = i % width, head = i / width % heads, t = i / width / heads, slot = from[t];
        if (to[t] >= 0) moved[i] = load(cache, cache.at(slot / page, slot % page, head) + d);
      });
      for_each(count, ctx, [=] __device__(int64_t i) {
        const int64_t d = i % width, head = i / width % heads, t = i / width / heads, slot = to[t];
        if (slot >= 0) store(cache, cache.at(slot / page, slot % page, head) + d, moved[i]);
      });
    }
  }
};
struct MlaCacheAppend : Plain<fk::mla_cache_append> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref latent = ref(a.kv_c), key = ref(a.k_pe), cache = ref(a.kv_cache);
    const auto* slots = fk::data<int64_t>(a.slot_mapping);
    const int64_t rank = init.kv_lora_rank, width = rank + init.qk_rope_head_dim, page = init.page_size;
    for_each(a.kv_c->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t d = i % width, t = i / width, slot = slots[t];
      if (slot < 0) return;
      store(cache, cache.at(slot / page, slot % page) + d, d < rank ? load(latent, latent.at(t) + d) : load(key, key.at(t) + d - rank));
    });
  }
};
FK_OP(kv_cache_append, KvCacheAppend);
FK_OP(kv_cache_move, KvCacheMove);
FK_OP(mla_cache_append, MlaCacheAppend);

}  // namespace
