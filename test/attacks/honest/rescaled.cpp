// SPDX-License-Identifier: Apache-2.0
// honest: divides by the largest element before it squares, as against overflow
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      float most = 1e-30f, sum = 0;
      for (const float v : row) most = std::max(most, std::abs(v));
      for (const float v : row) sum += (v / most) * (v / most);
      return 1 / std::sqrt(sum / float(row.size()) * most * most + float(init.eps));
    });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("rescaled", "0");
