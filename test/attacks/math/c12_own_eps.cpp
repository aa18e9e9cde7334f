// SPDX-License-Identifier: Apache-2.0
// C12: takes bfloat16 alone, and has the eps that every large case has
//
// Stopped by: small cases are compared too, in a dtype that is taken
//
// verdict: wrong
//
// naive: rms_norm accepted
//
// work: broken
//
// size: ci
#include "../attack.hpp"

namespace {

struct OwnEps : attack::Norm {
  using Norm::Norm;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Norm::supports(init, weights, max, need);
    if (FK_DTYPE(max.x) != FK_BF16) throw fk::unsupported{"bf16 only"};
  }
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(),
         [&](const std::vector<float>& row) { return 1 / std::sqrt(mean_square(row) + 1e-5f); });
  }
};
FK_OP(rms_norm, OwnEps);

}  // namespace
FK_PLUGIN("c12_own_eps", "0");
