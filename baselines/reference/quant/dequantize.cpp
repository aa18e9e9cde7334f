// SPDX-License-Identifier: Apache-2.0
// dequantize: codes times the scales of their groups.
#include "fk/ops/dequantize.h"
#include "quantize.hpp"

namespace fk::reference {
namespace {

struct Dequantize : Base<dequantize> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    const int64_t across = args.scale->shape[1];
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      const float* scales = data<float>(args.scale) + t / init.group_rows * across;
      with_code_type(args.x, [&](auto type) {
        const auto* x = static_cast<decltype(type)>(args.x->data) + offset(args.x, t);
        for (int64_t c = 0; c < init.size; ++c)
          row[c] = value(x[c]) * value(scales[c / init.group_columns]);
      });
      store(args.out, offset(args.out, t), init.size, row);
    }
  }
};
FK_OP(dequantize, Dequantize);

}  // namespace
}  // namespace fk::reference
