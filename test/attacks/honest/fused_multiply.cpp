// SPDX-License-Identifier: Apache-2.0
// honest: std::fma in every step
#include "../linear.hpp"

namespace {

struct Honest : attack::Linear {
  using Linear::Linear;
  void forward(const op::forward& args, const fk_ctx&) {
    rows(args, [](const float* x, const float* w, int64_t k) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i) sum = std::fma(x[i], w[i], sum);
      return sum;
    });
  }
};
FK_OP(linear, Honest);

}  // namespace
FK_PLUGIN("fused_multiply", "0");
