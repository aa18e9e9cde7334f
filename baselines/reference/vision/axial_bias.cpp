// SPDX-License-Identifier: Apache-2.0
// axial_bias: pixel by pixel of each query and head.
#include "fk/ops/axial_bias.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct AxialBias : Base<axial_bias> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need_floats(max.rows, max.out);
    need.scratch = max.out->shape[3] * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t high = args.rows->shape[2], wide = args.columns->shape[2];
    double* line = Scratch(ctx).take(high * wide);
    for (int64_t b = 0; b < args.out->shape[0]; ++b) {
      for (int64_t h = 0; h < init.num_heads; ++h) {
        for (int64_t m = 0; m < args.out->shape[2]; ++m) {
          for (int64_t at = 0; at < high * wide; ++at) {
            double row = 0, column = 0;
            if (m >= init.prefix_rows) {
              load(args.rows, offset(args.rows, b, m - init.prefix_rows, at / wide) + h, 1, &row);
              load(args.columns, offset(args.columns, b, m - init.prefix_rows, at % wide) + h, 1,
                   &column);
            }
            line[at] = row + column;
          }
          store(args.out, offset(args.out, b, h, m), high * wide, line);
        }
      }
    }
  }
};
FK_OP(axial_bias, AxialBias);

}  // namespace
}  // namespace fk::reference
