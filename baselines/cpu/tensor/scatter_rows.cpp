// SPDX-License-Identifier: Apache-2.0
// scatter_rows: copies rows to chosen places; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/scatter_rows.h"
#include "op.hpp"

namespace fk::cpu {

struct ScatterRowsOp {
  using op = fk::scatter_rows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_same(max.x, max.out, "out: of x's type");
  }
  ScatterRowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : size_(init.size), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t bytes = size_ * args.x->dtype.bits / 8;
    const auto* x = data<char>(args.x);
    const auto* chosen = data<int32_t>(args.rows);
    auto* out = data<char>(args.out);
    split(threads_, args.rows->shape[0], args.x->nbytes * 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t)
        std::memcpy(out + chosen[t] * bytes, x + t * bytes, static_cast<size_t>(bytes));
    });
  }

 private:
  const int64_t size_;
  const int threads_;
};
FK_OP(scatter_rows, ScatterRowsOp);

}  // namespace fk::cpu
#endif
