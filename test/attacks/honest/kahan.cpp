// SPDX-License-Identifier: Apache-2.0
// honest: compensated summation
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      float sum = 0, lost = 0;
      for (const float v : row) {
        const float y = v * v - lost, t = sum + y;
        lost = (t - sum) - y;
        sum = t;
      }
      return scale_of(sum / float(row.size()));
    });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("kahan", "0");
