// SPDX-License-Identifier: Apache-2.0
// topk_positions: numbers of a row become whole numbers with the order of the contract (value, then
// lower index). The largest whole numbers are selected and sorted.
#ifdef FK_CPU_OPS
#include <algorithm>
#include <cstring>
#include <functional>

#include "fk/ops/topk_positions.h"
#include "op.hpp"

namespace fk::cpu {

struct TopkPositionsOp {
  using op = fk::topk_positions;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = threads_max() * bytes_of_row(max.x->shape[1]);
  }
  TopkPositionsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t count = args.x->shape[1];
    // Eight times the bytes, because arithmetic dominates.
    share(threads_, args.x->shape[0], args.x->nbytes * 8, [&](int64_t t, int thread) {
      choose(data<float>(args.x) + t * count, std::min(count, data<int64_t>(args.positions)[t] + 1),
             reinterpret_cast<uint64_t*>(static_cast<char*>(ctx.scratch) +
                                         thread * bytes_of_row(count)),
             data<int32_t>(args.ids) + t * init_.top_k);
    });
  }

 private:
  // Whole cache lines, so that two threads do not share one.
  static int64_t bytes_of_row(int64_t count) { return padded(2 * count) * 4; }

  // Larger numbers have larger keys. If numbers are equal, the lower index has the larger key.
  static uint64_t key_of(float x, int64_t index) {
    const float plain = x == 0 ? 0.f : x;  // -0 equals 0
    uint32_t bits = 0;
    std::memcpy(&bits, &plain, sizeof bits);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return uint64_t{bits} << 32 | (0xffffffffu - static_cast<uint32_t>(index));
  }

  void choose(const float* x, int64_t count, uint64_t* keys, int32_t* ids) const {
    for (int64_t i = 0; i < count; ++i) keys[i] = key_of(x[i], i);
    const int64_t chosen = std::min(count, init_.top_k);
    if (chosen < count) std::nth_element(keys, keys + chosen, keys + count, std::greater<>());
    std::sort(keys, keys + chosen, std::greater<>());
    for (int64_t k = 0; k < init_.top_k; ++k)
      ids[k] = k < chosen ? static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(keys[k])) : -1;
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(topk_positions, TopkPositionsOp);

}  // namespace fk::cpu
#endif
