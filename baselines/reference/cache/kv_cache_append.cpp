// SPDX-License-Identifier: Apache-2.0
// kv_cache_append: row t of k and v goes to slot slot_mapping[t] of the cache. A negative slot: the
// token is not stored.
#include "fk/ops/kv_cache_append.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct KvCacheAppend : Base<kv_cache_append> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.k, max.v, max.k_cache, max.v_cache);
    need.scratch = init.head_dim * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* head = Scratch(ctx).take(init.head_dim);
    for (int64_t t = 0; t < args.k->shape[0]; ++t) {
      const int64_t slot = index<int64_t>(args.slot_mapping, t);
      if (slot < 0) continue;
      append(args.k, t, args.k_cache, slot, head);
      append(args.v, t, args.v_cache, slot, head);
    }
  }

 private:
  void append(const fk_in* x, int64_t t, const fk_inout* cache, int64_t slot, double* head) const {
    for (int64_t g = 0; g < init.num_kv_heads; ++g) {
      load(x, offset(x, t, g), init.head_dim, head);
      store(cache, offset(cache, slot / init.page_size, slot % init.page_size, g), init.head_dim,
            head);
    }
  }
};
FK_OP(kv_cache_append, KvCacheAppend);

}  // namespace
}  // namespace fk::reference
