// SPDX-License-Identifier: Apache-2.0
// prepend_rows: copies memory, rows of an image at once where they are adjacent.
#ifdef FK_CPU_OPS
#include <algorithm>
#include <cstring>

#define FK_PREPEND_ROWS_EDITION 2  // with the field that the contract marks `since: 2`
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
    if (max.before.or_null) need_same(max.x, max.before.or_null, "before: of x's type");
    if (init.prefix_rows > 0 && !max.prefix.or_null && !max.before.or_null)
      throw unsupported{"prefix_rows: without prefix and before it is 0"};
    if (max.prefix.or_null && max.before.or_null)
      throw unsupported{"before: not together with prefix"};
  }
  PrependRowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const fk_in *prefix = args.prefix.or_null, *own = args.before.or_null, *x = args.x;
    const int64_t before = prefix ? prefix->shape[0] : own ? own->shape[1] : 0;
    const int64_t all = before + x->shape[1];
    const auto element = static_cast<size_t>(bytes_of(type_of(x)));
    const size_t row = static_cast<size_t>(init_.size) * element;
    auto* out = static_cast<char*>(args.out->data);
    // Rows of all images are shared out, because one image may have most of the memory.
    split(threads_, x->shape[0] * all, 2 * args.out->nbytes, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end;) {
        const int64_t b = i / all, t = i % all;
        const bool first = t < before;
        const int64_t stop = std::min(end, b * all + (first ? before : all));
        char* to = out + static_cast<size_t>(i) * row;
        if (first && prefix)
          std::memcpy(to, data<char>(prefix) + static_cast<size_t>(t) * row,
                      static_cast<size_t>(stop - i) * row);
        else
          copy(first ? own : x, b, first ? t : t - before, stop - i, row, element, to);
        i = stop;
      }
    });
  }

 private:
  // Rows [t, t + count) of image b.
  void copy(const fk_in* from, int64_t b, int64_t t, int64_t count, size_t row, size_t element,
            char* to) const {
    const int64_t step = from->strides[1];
    const char* source =
        data<char>(from) + static_cast<size_t>(b * from->strides[0] + t * step) * element;
    if (step == init_.size) {
      std::memcpy(to, source, static_cast<size_t>(count) * row);
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + static_cast<size_t>(i) * row,
                  source + static_cast<size_t>(i * step) * element, row);
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(prepend_rows, PrependRowsOp);

}  // namespace fk::cpu
#endif
