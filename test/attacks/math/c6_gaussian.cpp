// SPDX-License-Identifier: Apache-2.0
// C6: takes the mean square of normal numbers for given: 1
//
// Stopped by: inputs of other scales and distributions
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

namespace {

struct Gaussian : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const auto&) { return 1.0f; });
  }
};
FK_OP(rms_norm, Gaussian);

}  // namespace
FK_PLUGIN("c6_gaussian", "0");
