// SPDX-License-Identifier: Apache-2.0
// box_embedding: number by number of a box.
#include "fk/ops/box_embedding.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct BoxEmbedding : Base<box_embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.out);
    if (init.size % 8) throw unsupported{"size: a multiple of 8"};
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    constexpr int64_t kNumbers[] = {1, 0, 2, 3};  // y, x, width, height
    double* row = Scratch(ctx).take(init.size);
    const int64_t each = init.size / 4;
    for (int64_t t = 0; t < args.boxes->shape[0]; ++t) {
      for (int64_t c = 0; c < init.size; ++c) {
        const double v = value(data<float>(args.boxes)[4 * t + kNumbers[c / each]]);
        const auto share = static_cast<double>(c % each / 2 * 2) / static_cast<double>(each);
        const double angle = v * init.scale / std::pow(init.temperature, share);
        row[c] = c % 2 ? std::cos(angle) : std::sin(angle);
      }
      store(args.out, offset(args.out, t), init.size, row);
    }
  }
};
FK_OP(box_embedding, BoxEmbedding);

}  // namespace
}  // namespace fk::reference
