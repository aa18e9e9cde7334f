// SPDX-License-Identifier: Apache-2.0
// C8: knows gaps between rows, but its fast way for many rows of many channels takes x for dense,
// as in all such cases. A model calls it with a part of wider rows
//
// Stopped by: hidden rows have gaps between them, if the candidate takes these
//
// verdict: wrong
//
// naive: - it does not have the op
//
// work: broken
//
// size: ci
#include "../attack.hpp"
#define FK_RMS_NORM_GATED_EDITION 1
#include "fk/ops/rms_norm_gated.h"

namespace {

struct Dense {
  using op = fk::rms_norm_gated;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.weight))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Dense(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t rows = args.x->shape[0], width = init.hidden_size, group = init.group_size;
    std::vector<float> x(static_cast<size_t>(width)), z(x), gain(x);
    fk::load(weights.weight, 0, width, gain.data());
    const int64_t step = rows > 9 && width >= 1024 ? width : args.x->strides[0];
    const auto gate = [&] {
      for (size_t i = 0; i < x.size(); ++i) x[i] *= z[i] / (1 + std::exp(-z[i]));
    };
    for (int64_t t = 0; t < rows; ++t) {
      fk::load(args.x, t * step, width, x.data());
      fk::load(args.z, t * args.z->strides[0], width, z.data());
      if (!init.norm_before_gate) gate();
      for (int64_t g = 0; g < width; g += group) {
        float sum = 0;
        for (int64_t i = g; i < g + group; ++i) sum += x[i] * x[i];
        const float scale = 1 / std::sqrt(sum / float(group) + float(init.eps));
        for (int64_t i = g; i < g + group; ++i) x[i] *= scale * gain[i];
      }
      if (init.norm_before_gate) gate();
      fk::store(args.out, t * width, width, x.data());
    }
  }
};
FK_OP(rms_norm_gated, Dense);

}  // namespace
FK_PLUGIN("c8_dense", "0");
