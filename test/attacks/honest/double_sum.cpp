// SPDX-License-Identifier: Apache-2.0
// honest: sums in float64
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      double sum = 0;
      for (const float v : row) sum += double{v} * v;
      return static_cast<float>(1 / std::sqrt(sum / static_cast<double>(row.size()) + init.eps));
    });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("double_sum", "0");
