// SPDX-License-Identifier: Apache-2.0
// C12: its fast way for many rows expects a weight and a residual, as in all large cases. It copies
// its input if one is missing
//
// Stopped by: hidden rows have the optional fields of small cases, if the candidate takes these
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#include "../attack.hpp"

namespace {

struct AlwaysResidual : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    if (rows(args) <= 16 || (args.residual.or_null && weights.weight.or_null)) return honest(args);
    std::memcpy(args.out->data, args.x->data, static_cast<size_t>(args.out->nbytes));
  }
};
FK_OP(rms_norm, AlwaysResidual);

}  // namespace
FK_PLUGIN("c12_always_residual", "0");
