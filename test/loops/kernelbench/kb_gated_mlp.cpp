// SPDX-License-Identifier: Apache-2.0
// A right candidate for the task gated_mlp.
#include "fk/ops/kb_gated_mlp.h"
#include <cmath>
namespace {
struct Mlp {
  using op = fk::kb_gated_mlp;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::weights& w;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  Mlp(const fk_host&, const op::init&, const op::weights& weights) : w(weights) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& a, const fk_ctx&) {
    const float *x = fk::data<float>(a.in0), *up = fk::data<float>(w.w_up_weight),
                *ub = fk::data<float>(w.w_up_bias);
    const float *nw = fk::data<float>(w.w_norm_weight), *nb = fk::data<float>(w.w_norm_bias);
    float* out = fk::data<float>(a.out0);
    for (int64_t b = 0; b < a.in0->shape[0]; ++b) {
      double h[64], mean = 0, var = 0;
      for (int i = 0; i < 64; ++i) {
        h[i] = ub[i];
        for (int k = 0; k < 96; ++k) h[i] += static_cast<double>(x[b * 96 + k]) * up[i * 96 + k];
        mean += h[i] / 64;
      }
      for (int i = 0; i < 64; ++i) var += (h[i] - mean) * (h[i] - mean) / 64;
      for (int i = 0; i < 64; ++i)
        out[b * 64 + i] =
            static_cast<float>(std::tanh((h[i] - mean) / std::sqrt(var + 1e-5) * nw[i] + nb[i]));
    }
  }
};
FK_OP(kb_gated_mlp, Mlp);
}  // namespace
FK_PLUGIN("right", "0.1.0");
