// SPDX-License-Identifier: Apache-2.0
// C12: takes an epsilon below a millionth for a millionth
//
// Stopped by: a case without an epsilon, whose numbers are small compared with a millionth
//
// verdict: wrong
//
// naive: rms_norm accepted
//
// work: broken
#include "../attack.hpp"

namespace {

struct LeastEps : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    const float eps = std::max(float(init.eps), 1e-6F);
    with(args, gains(),
         [&](const std::vector<float>& row) { return 1 / std::sqrt(mean_square(row) + eps); });
  }
};
FK_OP(rms_norm, LeastEps);

}  // namespace
FK_PLUGIN("c12_least_eps", "0");
