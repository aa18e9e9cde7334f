// SPDX-License-Identifier: Apache-2.0
// mla_cache_append: copies a latent and a rotated key into every slot; memory bounds its time. If
// the cache has another element type, the rows are converted.
#ifdef FK_CPU_OPS
#include "fk/ops/mla_cache_append.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct MlaCacheAppendOp {
  using op = fk::mla_cache_append;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.kv_c, "kv_c: f32, bf16 or f16");
    need_float(max.k_pe, "k_pe: f32, bf16 or f16");
    need_float(max.kv_cache, "kv_cache: f32, bf16 or f16");
  }
  MlaCacheAppendOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* slots = data<int64_t>(args.slot_mapping);
    const int64_t tokens = args.slot_mapping->shape[0];
    const int64_t width = init_.kv_lora_rank + init_.qk_rope_head_dim;
    split(threads_, tokens, tokens * width * args.kv_c->dtype.bits / 4,
          [&](int64_t begin, int64_t end, int) {
            for (int64_t t = begin; t < end; ++t) {
              if (slots[t] < 0) continue;
              copy(args.kv_c, t, init_.kv_lora_rank, args.kv_cache, slots[t], 0);
              copy(args.k_pe, t, init_.qk_rope_head_dim, args.kv_cache, slots[t],
                   init_.kv_lora_rank);
            }
          });
  }

 private:
  // Copies `count` elements of the token's row to `column` of the slot.
  void copy(const fk_in* from, int64_t token, int64_t count, const fk_inout* cache, int64_t slot,
            int64_t column) const {
    const int64_t to_bytes = cache->dtype.bits / 8;
    const char* row = data<char>(from) + token * from->strides[0] * from->dtype.bits / 8;
    char* to = data<char>(cache) + (slot / init_.page_size * cache->strides[0] +
                                    slot % init_.page_size * cache->strides[1] + column) *
                                       to_bytes;
    if (FK_DTYPE(from) == FK_DTYPE(cache))
      std::memcpy(to, row, static_cast<size_t>(count * to_bytes));
    else
      convert_({row, to, /*bias=*/nullptr, type_of(from), type_of(cache), /*bias_type=*/0}, count);
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(mla_cache_append, MlaCacheAppendOp);

}  // namespace fk::cpu
#endif
