// SPDX-License-Identifier: Apache-2.0
// prepend_rows: copies memory, an image's rows at once where they are adjacent.
#ifdef FK_CPU_OPS
#include <cstring>

#include "fk/ops/prepend_rows.h"
#include "op.hpp"

namespace fk::cpu {

struct PrependRowsOp {
  using op = fk::prepend_rows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    if (max.prefix.or_null) need_same(max.x, max.prefix.or_null, "prefix: of x's type");
    if (init.prefix_rows > 0 && !max.prefix.or_null)
      throw unsupported{"prefix_rows: without a prefix it is 0"};
  }
  PrependRowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const fk_in *prefix = args.prefix.or_null, *x = args.x;
    const int64_t before = prefix ? prefix->shape[0] : 0, rows = x->shape[1];
    const auto element = static_cast<size_t>(bytes_of(type_of(x)));
    const size_t row = static_cast<size_t>(init_.size) * element;
    const auto* source = static_cast<const char*>(x->data);
    auto* out = static_cast<char*>(args.out->data);
    split(threads_, x->shape[0], 2 * args.out->nbytes, [&](int64_t begin, int64_t end, int) {
      for (int64_t b = begin; b < end; ++b) {
        char* to = out + static_cast<size_t>(b * (before + rows)) * row;
        if (prefix) std::memcpy(to, prefix->data, static_cast<size_t>(before) * row);
        to += static_cast<size_t>(before) * row;
        const char* from = source + static_cast<size_t>(b * x->strides[0]) * element;
        if (x->strides[1] == init_.size) {
          std::memcpy(to, from, static_cast<size_t>(rows) * row);
          continue;
        }
        for (int64_t t = 0; t < rows; ++t)
          std::memcpy(to + static_cast<size_t>(t) * row,
                      from + static_cast<size_t>(t * x->strides[1]) * element, row);
      }
    });
  }

 private:
  const op::init& init_;
  const int threads_;
};
FK_OP(prepend_rows, PrependRowsOp);

}  // namespace fk::cpu
#endif
