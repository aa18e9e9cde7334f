// SPDX-License-Identifier: Apache-2.0
// gather_rows: copies chosen rows; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/gather_rows.h"
#include "op.hpp"

namespace fk::cpu {

struct GatherRowsOp {
  using op = fk::gather_rows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_same(max.x, max.out, "out: of x's type");
  }
  GatherRowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : size_(init.size), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t bytes = size_ * args.x->dtype.bits / 8;
    const auto* x = data<char>(args.x);
    const auto* chosen = data<int32_t>(args.rows);
    auto* out = data<char>(args.out);
    split(threads_, args.rows->shape[0], args.out->nbytes * 2,
          [&](int64_t begin, int64_t end, int) {
            for (int64_t t = begin; t < end; ++t) {
              std::memcpy(out + t * bytes, x + chosen[t] * bytes, static_cast<size_t>(bytes));
            }
          });
  }

 private:
  const int64_t size_;
  const int threads_;
};
FK_OP(gather_rows, GatherRowsOp);

}  // namespace fk::cpu
#endif
