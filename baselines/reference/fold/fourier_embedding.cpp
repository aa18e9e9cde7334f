// SPDX-License-Identifier: Apache-2.0
// fourier_embedding: channel by channel.
#include "fk/ops/fourier_embedding.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct FourierEmbedding : Base<fourier_embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    constexpr double kTurn = 6.283185307179586;
    double* row = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.t->shape[0]; ++t) {
      for (int64_t c = 0; c < init.size; ++c)
        row[c] =
            std::cos(kTurn * (value(data<float>(args.t)[t]) * value(data<float>(weights.w)[c]) +
                              value(data<float>(weights.b)[c])));
      store(args.out, offset(args.out, t), init.size, row);
    }
  }
};
FK_OP(fourier_embedding, FourierEmbedding);

}  // namespace
}  // namespace fk::reference
