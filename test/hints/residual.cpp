// SPDX-License-Identifier: Apache-2.0
// wrong: the sum is not written back to residual
// hint: holds_its_input
// says: residual still holds its input
// next: Write the new values into residual: it is an input and an output of the call.
#include "../attacks/attack.hpp"

namespace {

struct Residual : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    const auto size = static_cast<size_t>(rows(args) * init.hidden_size);
    std::vector<float> before(size);
    const fk_inout* residual = args.residual.or_null;
    if (residual) fk::load(residual, 0, static_cast<int64_t>(size), before.data());
    honest(args);
    if (residual) fk::store(residual, 0, static_cast<int64_t>(size), before.data());
  }
};
FK_OP(rms_norm, Residual);

}  // namespace
FK_PLUGIN("wrong_residual", "0");
