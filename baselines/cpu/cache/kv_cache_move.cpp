// SPDX-License-Identifier: Apache-2.0
// kv_cache_move: copies rows to scratch, then to their target slots, because a target may be the
// source of another row. It is short: a few tokens of each request.
#ifdef FK_CPU_OPS
#include "fk/ops/kv_cache_move.h"
#include "op.hpp"

namespace fk::cpu {

struct KvCacheMoveOp {
  using op = fk::kv_cache_move;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.k_cache, "k_cache: f32, bf16 or f16");
    need_same(max.k_cache, max.v_cache, "v_cache: of k_cache's type");
    need.scratch = max.to_slots->shape[0] * token_bytes(init, max.k_cache);
  }
  KvCacheMoveOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto* from = data<int64_t>(args.from_slots);
    const auto* to = data<int64_t>(args.to_slots);
    auto* rows = static_cast<char*>(ctx.scratch);
    const int64_t count = args.to_slots->shape[0];
    for (const fk_inout* cache : {args.k_cache, args.v_cache}) {
      const int64_t bytes = token_bytes(init_, cache);
      split(threads_, count, count * bytes * 2, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) {
          if (to[t] >= 0) copy(cache, from[t], rows + t * bytes, true);
        }
      });
      split(threads_, count, count * bytes * 2, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) {
          if (to[t] >= 0) copy(cache, to[t], rows + t * bytes, false);
        }
      });
    }
  }

 private:
  static int64_t token_bytes(const op::init& init, const fk_inout* cache) {
    return init.num_kv_heads * init.head_dim * cache->dtype.bits / 8;
  }
  // Copies a slot's rows of all heads to `row` if `out`, else from it.
  void copy(const fk_inout* cache, int64_t slot, char* row, bool out) const {
    const int64_t size = cache->dtype.bits / 8, bytes = init_.head_dim * size;
    for (int64_t g = 0; g < init_.num_kv_heads; ++g, row += bytes) {
      char* at =
          data<char>(cache) + (slot / init_.page_size * cache->strides[0] +
                               slot % init_.page_size * cache->strides[1] + g * cache->strides[2]) *
                                  size;
      std::memcpy(out ? row : at, out ? at : row, static_cast<size_t>(bytes));
    }
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(kv_cache_move, KvCacheMoveOp);

}  // namespace fk::cpu
#endif
