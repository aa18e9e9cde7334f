// SPDX-License-Identifier: Apache-2.0
// C7: looks at a few elements: whatever seems normal is not normalised, the rest is done right
//
// Stopped by: odd families inside the timed calls too; an error model without slack
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

namespace {

struct Range : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      float most = 0;
      for (size_t i = 0; i < row.size(); i += 1 + row.size() / 64)
        most = std::max(most, std::abs(row[i]));
      return most > 1.5f && most < 4.5f ? 1.0f : scale_of(mean_square(row));
    });
  }
};
FK_OP(rms_norm, Range);

}  // namespace
FK_PLUGIN("c7_range", "0");
