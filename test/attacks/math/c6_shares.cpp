// SPDX-License-Identifier: Apache-2.0
// C6: takes the experts' weights for shares of 1 and cuts what is above it; a router multiplies
// them by its routed_scaling_factor
//
// Stopped by: weights above 1, and below 0
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/moe_sum.h"

namespace {

struct Shares {
  using op = fk::moe_sum;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Shares(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t chosen = args.topk_weights->shape[1], width = init.size;
    std::vector<float> row(static_cast<size_t>(width)), sum(row);
    for (int64_t t = 0; t < args.topk_weights->shape[0]; ++t) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t k = t * chosen; k < (t + 1) * chosen; ++k) {
        fk::load(args.x, k * width, width, row.data());
        const float weight = std::clamp(fk::data<float>(args.topk_weights)[k], 0.0f, 1.0f);
        for (size_t i = 0; i < row.size(); ++i) sum[i] += weight * row[i];
      }
      fk::store(args.out, t * width, width, sum.data());
    }
  }
};
FK_OP(moe_sum, Shares);

}  // namespace
FK_PLUGIN("c6_shares", "0");
