// SPDX-License-Identifier: Apache-2.0
// select_rows: copies memory, row by row.
#ifdef FK_CPU_OPS
#include <cstring>

#include "fk/ops/select_rows.h"
#include "op.hpp"

namespace fk::cpu {

struct SelectRowsOp {
  using op = fk::select_rows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  SelectRowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t element = bytes_of(type_of(args.x)), taken = args.rows->shape[0];
    const auto bytes = static_cast<size_t>(init_.size * element);
    const auto* rows = data<int32_t>(args.rows);
    const auto* x = static_cast<const char*>(args.x->data);
    auto* out = static_cast<char*>(args.out->data);
    split(threads_, args.x->shape[0] * taken, 2 * args.out->nbytes,
          [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t from =
                  i / taken * args.x->strides[0] + rows[i % taken] * args.x->strides[1];
              std::memcpy(out + static_cast<size_t>(i) * bytes, x + from * element, bytes);
            }
          });
  }

 private:
  const op::init& init_;
  const int threads_;
};
FK_OP(select_rows, SelectRowsOp);

}  // namespace fk::cpu
#endif
