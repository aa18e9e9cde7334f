// SPDX-License-Identifier: Apache-2.0
// C12: leaves the residual as it was
//
// Stopped by: inout fields are compared as outputs are
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

namespace {

struct NoResidual : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    const fk_inout* residual = args.residual.or_null;
    std::vector<char> before;
    if (residual)
      before.assign(static_cast<char*>(residual->data),
                    static_cast<char*>(residual->data) + residual->nbytes);
    honest(args);
    if (residual) std::memcpy(residual->data, before.data(), before.size());
  }
};
FK_OP(rms_norm, NoResidual);

}  // namespace
FK_PLUGIN("c12_residual", "0");
