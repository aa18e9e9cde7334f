// SPDX-License-Identifier: Apache-2.0
// kv_cache_append: copies keys and values into their slots; memory bounds its time. If both sides
// are dense, all heads of a token are one copy. If the cache has another element type, the rows are
// converted.
#ifdef FK_CPU_OPS
#include "fk/ops/kv_cache_append.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct KvCacheAppendOp {
  using op = fk::kv_cache_append;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.k, "k: f32, bf16 or f16");
    need_float(max.v, "v: f32, bf16 or f16");
    need_float(max.k_cache, "k_cache: f32, bf16 or f16");
    need_float(max.v_cache, "v_cache: f32, bf16 or f16");
  }
  KvCacheAppendOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* slots = data<int64_t>(args.slot_mapping);
    const int64_t tokens = args.slot_mapping->shape[0];
    const int64_t token_bytes = init_.num_kv_heads * init_.head_dim * args.k->dtype.bits / 8;
    split(threads_, tokens, tokens * token_bytes * 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        if (slots[t] < 0) continue;
        copy(args.k, t, args.k_cache, slots[t]);
        copy(args.v, t, args.v_cache, slots[t]);
      }
    });
  }

 private:
  // Copies the token's rows of all heads into a slot of the cache.
  void copy(const fk_in* from, int64_t token, const fk_inout* cache, int64_t slot) const {
    const int64_t d = init_.head_dim, g = init_.num_kv_heads;
    const int64_t from_bytes = from->dtype.bits / 8, to_bytes = cache->dtype.bits / 8;
    const char* source = data<char>(from) + token * from->strides[0] * from_bytes;
    char* target = data<char>(cache) + (slot / init_.page_size * cache->strides[0] +
                                        slot % init_.page_size * cache->strides[1]) *
                                           to_bytes;
    const bool dense = g == 1 || (from->strides[1] == d && cache->strides[2] == d);
    const int64_t copies = dense ? 1 : g, count = dense ? g * d : d;
    const bool same = FK_DTYPE(from) == FK_DTYPE(cache);
    for (int64_t h = 0; h < copies; ++h) {
      const char* row = source + h * from->strides[1] * from_bytes;
      char* to = target + h * cache->strides[2] * to_bytes;
      if (same)
        std::memcpy(to, row, static_cast<size_t>(count * to_bytes));
      else
        convert_({row, to, /*bias=*/nullptr, type_of(from), type_of(cache), /*bias_type=*/0},
                 count);
    }
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(kv_cache_append, KvCacheAppendOp);

}  // namespace fk::cpu
#endif
