// SPDX-License-Identifier: Apache-2.0
// C12: takes the one shape that it was written for, of which every case has the same eps, and no
// other eps is looked at
//
// Stopped by: large cases are also called with the values of small ones
//
// verdict: wrong
//
// naive: - it takes no float32
//
// work: broken
//
// size: ci
#include "../attack.hpp"

namespace {

struct OneShapeEps : attack::Norm {
  using Norm::Norm;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Norm::supports(init, weights, max, need);
    if (init.hidden_size != 1024 || FK_DTYPE(max.x) != FK_BF16)
      throw fk::unsupported{"1024 channels of bf16"};
  }
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(),
         [&](const std::vector<float>& row) { return 1 / std::sqrt(mean_square(row) + 1e-5f); });
  }
};
FK_OP(rms_norm, OneShapeEps);

}  // namespace
FK_PLUGIN("c12_one_shape_eps", "0");
