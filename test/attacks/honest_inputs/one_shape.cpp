// SPDX-License-Identifier: Apache-2.0
// honest: takes the one shape that it was written for and refuses every small case
//
// size: ci
#include "../attack.hpp"

namespace {

struct OneShape : attack::Norm {
  using Norm::Norm;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Norm::supports(init, weights, max, need);
    if (init.hidden_size != 1024 || FK_DTYPE(max.x) != FK_BF16)
      throw fk::unsupported{"1024 channels of bf16"};
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(rms_norm, OneShape);

}  // namespace
FK_PLUGIN("one_shape", "0");
