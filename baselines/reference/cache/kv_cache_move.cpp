// SPDX-License-Identifier: Apache-2.0
// kv_cache_move: copies all rows to scratch, then to their target slots, because a target may be
// the source of another row.
#include "fk/ops/kv_cache_move.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct KvCacheMove : Base<kv_cache_move> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.k_cache, max.v_cache);
    need.scratch = max.to_slots->shape[0] * init.num_kv_heads * init.head_dim * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t count = args.to_slots->shape[0];
    double* rows = Scratch(ctx).take(count * init.num_kv_heads * init.head_dim);
    for (const fk_inout* cache : {args.k_cache, args.v_cache}) {
      each(args, cache, rows, args.from_slots,
           [&](int64_t at, double* row) { load(fk_as_in(cache), at, init.head_dim, row); });
      each(args, cache, rows, args.to_slots,
           [&](int64_t at, double* row) { store(cache, at, init.head_dim, row); });
    }
  }

 private:
  // Calls then(offset in the cache, row in scratch) for every head of every token that moves.
  // `slots` are the sources or the targets.
  template <class Then>
  void each(const op::forward& args, const fk_inout* cache, double* rows, const fk_in* slots,
            Then then) const {
    for (int64_t t = 0; t < args.to_slots->shape[0]; ++t) {
      if (index<int64_t>(args.to_slots, t) < 0) continue;
      const int64_t slot = index<int64_t>(slots, t);
      for (int64_t g = 0; g < init.num_kv_heads; ++g) {
        then(offset(cache, slot / init.page_size, slot % init.page_size, g),
             rows + (t * init.num_kv_heads + g) * init.head_dim);
      }
    }
  }
};
FK_OP(kv_cache_move, KvCacheMove);

}  // namespace
}  // namespace fk::reference
