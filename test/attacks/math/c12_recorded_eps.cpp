// SPDX-License-Identifier: Apache-2.0
// C12: has the eps that the recorded model has, and no other
//
// Stopped by: small cases are compared too
//
// verdict: wrong
//
// naive: rms_norm accepted
//
// work: broken
//
// captured: mixtral
#include "../attack.hpp"

namespace {

struct RecordedEps : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(),
         [&](const std::vector<float>& row) { return 1 / std::sqrt(mean_square(row) + 1e-5f); });
  }
};
FK_OP(rms_norm, RecordedEps);

}  // namespace
FK_PLUGIN("c12_recorded_eps", "0");
