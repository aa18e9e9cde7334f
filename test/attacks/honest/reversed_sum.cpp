// SPDX-License-Identifier: Apache-2.0
// honest: sums from the end
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      float sum = 0;
      for (size_t i = row.size(); i-- > 0;) sum += row[i] * row[i];
      return scale_of(sum / float(row.size()));
    });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("reversed_sum", "0");
