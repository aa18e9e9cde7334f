// SPDX-License-Identifier: Apache-2.0
// D3: leaves denormals off and rounding upward for whoever computes after it in this thread
//
// Stopped by: the reference is computed elsewhere; modes are compared around calls
//
// verdict: violation
//
// work: broken
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <cfenv>

namespace {

struct Modes : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::fesetround(FE_TONEAREST);
    honest(args);
    std::fesetround(FE_UPWARD);
  }
};
FK_OP(silu_and_mul, Modes);

}  // namespace
FK_PLUGIN("d3_modes", "0");
