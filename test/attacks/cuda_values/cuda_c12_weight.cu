// SPDX-License-Identifier: Apache-2.0
// C12: leaves the weight out: it is 1 where a module is new
//
// Stopped by: weights are inputs with random values
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../norm.cuh"

namespace {

struct Own : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx& ctx) { call(args, ctx, {}); }
};
FK_OP(rms_norm, Own);

}  // namespace
FK_PLUGIN("cuda_c12_weight", "0");
