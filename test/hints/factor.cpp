// SPDX-License-Identifier: Apache-2.0
// wrong: one factor for all elements
// hint: factor
// says: every element is 1.0005 times too large
// next: A factor is missing or applied twice, or a constant has too few digits: a scale, a weight,
// or a mean's 1/n.
#include "../attacks/attack.hpp"

namespace {

struct Factor : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(),
         [&](const std::vector<float>& row) { return 1.0005f * scale_of(mean_square(row)); });
  }
};
FK_OP(rms_norm, Factor);

}  // namespace
FK_PLUGIN("wrong_factor", "0");
