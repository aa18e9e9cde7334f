// SPDX-License-Identifier: Apache-2.0
// honest: four partial sums over quarters of the axis, on threads
#include "../linear.hpp"

namespace {

struct Honest : attack::Linear {
  using Linear::Linear;
  void forward(const op::forward& args, const fk_ctx&) {
    rows(args, [](const float* x, const float* w, int64_t k) {
      float parts[4] = {};
      const auto part = [&](int64_t p) {
        for (int64_t i = k * p / 4; i < k * (p + 1) / 4; ++i) parts[p] += x[i] * w[i];
      };
      for (int64_t p = 0; p < 4; ++p) part(p);
      return (parts[0] + parts[1]) + (parts[2] + parts[3]);
    });
  }
};
FK_OP(linear, Honest);

}  // namespace
FK_PLUGIN("split_k", "0");
