// SPDX-License-Identifier: Apache-2.0
// honest: float64 sums of float32 products
#include "../linear.hpp"

namespace {

struct Honest : attack::Linear {
  using Linear::Linear;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F64, 0, 0, nullptr};
  void forward(const op::forward& args, const fk_ctx&) {
    rows(args, [](const float* x, const float* w, int64_t k) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += double{x[i]} * w[i];
      return static_cast<float>(sum);
    });
  }
};
FK_OP(linear, Honest);

}  // namespace
FK_PLUGIN("float64_dot", "0");
