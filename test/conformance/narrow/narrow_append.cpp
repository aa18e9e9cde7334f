// SPDX-License-Identifier: Apache-2.0
// kv_cache_append that computes places in the cache in 32 bits.
#define FK_REFERENCE "baselines/reference/cache/kv_cache_append.cpp"
#include "narrow_strides.hpp"
#include "test/attacks/reference.hpp"

namespace {

struct Offsets : fk::reference::KvCacheAppend {
  using KvCacheAppend::KvCacheAppend;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const NarrowStrides k(args.k_cache), v(args.v_cache);
    op::forward own = args;
    own.k_cache = k.view();
    own.v_cache = v.view();
    KvCacheAppend::forward(own, ctx);
  }
};
FK_OP(kv_cache_append, Offsets);

}  // namespace
FK_PLUGIN("narrow_append", "0");
