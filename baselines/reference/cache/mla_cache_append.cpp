// SPDX-License-Identifier: Apache-2.0
// mla_cache_append: stores latent and rotated key of token t, one after the other, in slot
// slot_mapping[t]. A negative slot: the token is not stored.
#include "fk/ops/mla_cache_append.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct MlaCacheAppend : Base<mla_cache_append> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.kv_c, max.k_pe, max.kv_cache);
    need.scratch = (init.kv_lora_rank + init.qk_rope_head_dim) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t latent = init.kv_lora_rank, width = latent + init.qk_rope_head_dim;
    double* row = Scratch(ctx).take(width);
    for (int64_t t = 0; t < args.kv_c->shape[0]; ++t) {
      const int64_t slot = index<int64_t>(args.slot_mapping, t);
      if (slot < 0) continue;
      load(args.kv_c, offset(args.kv_c, t), latent, row);
      load(args.k_pe, offset(args.k_pe, t), width - latent, row + latent);
      store(args.kv_cache, offset(args.kv_cache, slot / init.page_size, slot % init.page_size),
            width, row);
    }
  }
};
FK_OP(mla_cache_append, MlaCacheAppend);

}  // namespace
}  // namespace fk::reference
