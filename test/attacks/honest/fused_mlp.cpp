// SPDX-License-Identifier: Apache-2.0
// honest: gated_mlp in one piece: the products of a row stay in registers and on the stack
#define FK_GATED_MLP_EDITION 2
#include "../attack.hpp"
#include "fk/ops/gated_mlp.h"

namespace {

struct Honest {
  using op = fk::gated_mlp;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (weights.gate_up_scale_inv.or_null || weights.down_scale_inv.or_null)
      throw fk::unsupported{"weights with scales"};
    if (!fk::is_float(max.x) || !fk::is_float(weights.gate_up) || !fk::is_float(weights.down))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Honest(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t hidden = init.hidden_size, width = init.intermediate_size;
    std::vector<float> x(static_cast<size_t>(hidden)),
        w(static_cast<size_t>(std::max(hidden, width))), middle(static_cast<size_t>(width)), out(x);
    const auto dot = [&](const fk_in* matrix, int64_t row, int64_t k,
                         const std::vector<float>& with) {
      fk::load(matrix, row * k, k, w.data());
      double sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += double{with[static_cast<size_t>(i)]} * w[static_cast<size_t>(i)];
      return sum;
    };
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      fk::load(args.x, t * hidden, hidden, x.data());
      for (int64_t i = 0; i < width; ++i) {
        const double gate = dot(weights.gate_up, i, hidden, x),
                     up = dot(weights.gate_up, width + i, hidden, x);
        middle[static_cast<size_t>(i)] = static_cast<float>(gate / (1 + std::exp(-gate)) * up);
      }
      for (int64_t i = 0; i < hidden; ++i)
        out[static_cast<size_t>(i)] = static_cast<float>(dot(weights.down, i, width, middle));
      fk::store(args.out, t * hidden, hidden, out.data());
    }
  }
};
FK_OP(gated_mlp, Honest);

}  // namespace
FK_PLUGIN("fused_mlp", "0");
