// SPDX-License-Identifier: Apache-2.0
// pair_windows: copies rows of pairs; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/pair_windows.h"
#include "op.hpp"

namespace fk::cpu {

struct PairWindowsOp {
  using op = fk::pair_windows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_same(max.x, max.out, "out: of x's type");
  }
  PairWindowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t bytes = init_.size * args.x->dtype.bits / 8, tokens = args.x->shape[0];
    const int64_t queries = args.q_rows->shape[1], keys = args.k_rows->shape[1];
    const auto *of = data<int32_t>(args.tokens), *q = data<int32_t>(args.q_rows);
    const auto* k = data<int32_t>(args.k_rows);
    split(threads_, args.q_rows->shape[0] * queries, args.out->nbytes * 2,
          [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row) {
              const char* x = data<char>(args.x) + of[q[row]] * tokens * bytes;
              char* out = data<char>(args.out) + row * keys * bytes;
              for (int64_t s = 0; s < keys; ++s)
                std::memcpy(out + s * bytes, x + of[k[row / queries * keys + s]] * bytes,
                            static_cast<size_t>(bytes));
            }
          });
  }

 private:
  const op::init& init_;

  const int threads_;
};
FK_OP(pair_windows, PairWindowsOp);

}  // namespace fk::cpu
#endif
