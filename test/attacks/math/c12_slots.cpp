// SPDX-License-Identifier: Apache-2.0
// C12: kv_cache_append that reads slots as numbers of 16 bits: caches of large cases have 4096
// slots, those of a server many times as many
//
// Stopped by: a small case has more slots and pages than 16 bits count
//
// verdict: violation illegal_access
//
// naive: -
//
// work: broken
#include <vector>
#define FK_REFERENCE "baselines/reference/cache/kv_cache_append.cpp"
#include "../reference.hpp"

namespace {

struct Slots : fk::reference::KvCacheAppend {
  using KvCacheAppend::KvCacheAppend;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.k->shape[0];
    std::vector<int64_t> slots;
    for (int64_t t = 0; t < tokens; ++t)
      slots.push_back(static_cast<int16_t>(fk::data<int64_t>(args.slot_mapping)[t]));
    fk_in mapping = *args.slot_mapping;
    mapping.data = slots.data();
    op::forward own = args;
    own.slot_mapping = &mapping;
    KvCacheAppend::forward(own, ctx);
  }
};
FK_OP(kv_cache_append, Slots);

}  // namespace
FK_PLUGIN("c12_slots", "0");
