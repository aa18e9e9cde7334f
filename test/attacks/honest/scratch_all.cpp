// SPDX-License-Identifier: Apache-2.0
// honest: scratch for every row, written before it is read
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Norm::supports(init, weights, max, need);
    need.scratch = std::max<int64_t>(256, 8 * rows(max));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    float* scales = static_cast<float*>(ctx.scratch);
    int64_t t = 0;
    with(args, gains(), [&](const std::vector<float>& row) {
      return scales[t] = scale_of(mean_square(row)), scales[t++];
    });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("scratch_all", "0");
