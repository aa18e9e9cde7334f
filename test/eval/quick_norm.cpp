// SPDX-License-Identifier: Apache-2.0
// rms_norm in float32, right and much faster than test/known/plain_norm.cpp: the root once a row,
// sums in several registers.
#include "fk/ops/rms_norm.h"

#include <array>
#include <cmath>

namespace {

struct QuickNorm {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t width;
  const double eps;
  const float* const weight;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"x: float32 only"};
    if (weights.weight.or_null && FK_DTYPE(weights.weight.or_null) != FK_F32)
      throw fk::unsupported{"weight: float32 only"};
  }
  QuickNorm(const fk_host&, const op::init& init, const op::weights& weights)
      : width(init.hidden_size), eps(init.eps), weight(fk::data<float>(weights.weight)) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx&) {
    float* residual = fk::data<float>(args.residual);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      const float* x = fk::data<float>(args.x) + t * width;
      float* out = fk::data<float>(args.out) + t * width;
      if (residual) {
        float* const sum = residual + t * width;
        for (int64_t i = 0; i < width; ++i) sum[i] += x[i];
        x = sum;
      }
      std::array<double, 8> parts{};
      int64_t i = 0;
      for (; i + 8 <= width; i += 8)
        for (size_t k = 0; k < 8; ++k) {
          const auto value = static_cast<double>(x[i + static_cast<int64_t>(k)]);
          parts[k] += value * value;
        }
      for (; i < width; ++i) parts[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      double squares = 0;
      for (const double part : parts) squares += part;
      const auto scale =
          static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + eps));
      if (weight)
        for (i = 0; i < width; ++i) out[i] = x[i] * scale * weight[i];
      else
        for (i = 0; i < width; ++i) out[i] = x[i] * scale;
    }
  }
};
FK_OP(rms_norm, QuickNorm);

}  // namespace
FK_PLUGIN("quick_norm", "1");
