// SPDX-License-Identifier: Apache-2.0
// C12: leaves the residual as it was
//
// Stopped by: inout fields are compared as outputs are
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../norm.cuh"

namespace {

struct Own : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx& ctx) { call(args, ctx, weight, true); }
};
FK_OP(rms_norm, Own);

}  // namespace
FK_PLUGIN("cuda_c12_residual", "0");
