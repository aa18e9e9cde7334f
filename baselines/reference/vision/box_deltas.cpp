// SPDX-License-Identifier: Apache-2.0
// box_deltas: columns, then rows of an image.
#include "fk/ops/box_deltas.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct BoxDeltas : Base<box_deltas> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_floats(max.columns, max.rows);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < args.boxes->shape[0]; ++t) {
      const float* box = data<float>(args.boxes) + 4 * t;
      write(args.columns, t, init.image_size->at[1], value(box[0]), value(box[2]));
      write(args.rows, t, init.image_size->at[0], value(box[1]), value(box[3]));
    }
  }

 private:
  static void write(const fk_out* out, int64_t t, int64_t count, double middle, double width) {
    for (int64_t i = 0; i < count; ++i) {
      double both[2];
      for (int side = 0; side < 2; ++side) {
        const double edge = middle + (side ? 0.5 : -0.5) * width;
        const double d = 8 * (static_cast<double>(i) / static_cast<double>(count) - edge);
        both[side] = std::copysign(std::log2(std::fabs(d) + 1) / 3, d);
      }
      store(out, offset(out, t, i), 2, both);
    }
  }
};
FK_OP(box_deltas, BoxDeltas);

}  // namespace
}  // namespace fk::reference
