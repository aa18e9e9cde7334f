// SPDX-License-Identifier: Apache-2.0
// sinusoidal_embedding: sines and cosines of a time, with falling frequencies.
#include "fk/ops/sinusoidal_embedding.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct SinusoidalEmbedding : Base<sinusoidal_embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    const int64_t half = init.size / 2;
    const double span = static_cast<double>(half) - init.downscale_freq_shift;
    row[init.size - 1] = 0;
    for (int64_t b = 0; b < args.t->shape[0]; ++b) {
      const double t = init.scale * value(*(data<float>(args.t) + offset(args.t, b)));
      for (int64_t i = 0; i < half; ++i) {
        const double angle = t * std::pow(init.max_period, -static_cast<double>(i) / span);
        row[init.flip_sin_to_cos ? half + i : i] = std::sin(angle);
        row[init.flip_sin_to_cos ? i : half + i] = std::cos(angle);
      }
      store(args.out, offset(args.out, b), init.size, row);
    }
  }
};
FK_OP(sinusoidal_embedding, SinusoidalEmbedding);

}  // namespace
}  // namespace fk::reference
