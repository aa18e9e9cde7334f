// SPDX-License-Identifier: Apache-2.0
// honest: sixteen partial sums, as vector units have them
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      float lanes[16] = {}, sum = 0;
      for (size_t i = 0; i < row.size(); ++i) lanes[i % 16] += row[i] * row[i];
      for (const float lane : lanes) sum += lane;
      return scale_of(sum / float(row.size()));
    });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("lanes", "0");
