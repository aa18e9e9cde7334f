// SPDX-License-Identifier: Apache-2.0
// wrong: eps of rms_norm is not read
// hint: attribute_without_effect
// says: eps has no effect
// next: Use eps in the formula: its place is in the contract (`fk-host show OP`).
#include "../attacks/attack.hpp"

namespace {

struct NoEps : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(),
         [&](const std::vector<float>& row) { return 1 / std::sqrt(mean_square(row)); });
  }
};
FK_OP(rms_norm, NoEps);

}  // namespace
FK_PLUGIN("wrong_eps", "0");
